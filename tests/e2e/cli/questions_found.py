"""Questions about GPUs, models and commands: what is found, and what is said where nothing is."""

from tests.e2e.cli.questions import (
    A100,
    DOES_NOT_FIT,
    FITS,
    H100,
    LORA,
    ONE,
    REFUSED,
    SERVE,
    TRAIN,
    ask,
)

_SMALL = f"fit llama-3.2-1b {LORA} --sequence-length 512"
_SERVED = f"fit llama-3.1-8b {SERVE} {ONE}"

GPUS = (
    ask("An RTX 3060?", f"{_SMALL} --gpu 'RTX 3060'", REFUSED, "RTX-3060-12GB"),
    ask("An RTX 3060 with 12 GB?", f"{_SMALL} --gpu RTX-3060-12GB", FITS, "RTX-3060-12GB"),
    ask("A 4090, as I type it?", f"{_SMALL} --gpu 4090", FITS, "4090"),
    ask(
        "A 4090, as nvidia-smi prints it?",
        f"{_SMALL} --gpu 'NVIDIA GeForce RTX 4090'",
        FITS,
        "4090",
    ),
    ask("A 5090?", f"{_SMALL} --gpu 'rtx 5090'", FITS, "5090"),
    ask(
        "An A100?",
        f"{_SMALL} --gpu A100",
        REFUSED,
        "say A100-SXM4-40GB (40.00 GiB) or A100-SXM4-80GB",
    ),
    ask("A workstation's card?", f"{_SMALL} --gpu 'RTX 6000 Ada'", FITS),
    ask("A Jetson?", f"{_SMALL} --gpu 'Jetson AGX Orin 64GB'", FITS, "shares its memory"),
    ask("A DGX Spark?", f"{_SMALL} --gpu GB10", FITS, "shares its memory"),
    ask("An H20?", f"{_SMALL} --gpu H20", FITS),
    ask("An L2?", f"{_SMALL} --gpu L2", FITS),
    ask("An MI300X?", f"{_SMALL} --gpu MI300X", FITS),
    ask("A B200?", f"{_SMALL} --gpu B200", FITS),
    ask("A MacBook?", f"{_SERVED} --gpu 'M3 Max'", REFUSED, "Apple silicon"),
    ask("A TPU?", f"{_SERVED} --gpu 'TPU v5e'", REFUSED, "XLA"),
    ask("A slice?", f"{_SMALL} --gpu A100-SXM4-80GB/1g.10gb", FITS, "1g.10gb"),
    ask("No such slice?", f"{_SMALL} --gpu A100-SXM4-80GB/5g.99gb", REFUSED, "it has: 1g.10gb"),
    ask("A card nobody knows?", f"{_SMALL} --gpu 'Foo 9000'", REFUSED, "--gpu-memory"),
    ask("Twelve gigabytes of anything?", f"{_SMALL} --gpu-memory 12Gi", FITS, "12Gi"),
)

MODELS = (
    ask("A 13B?", f"fit 13B {A100} {SERVE} {ONE}", FITS, "stand-in"),
    ask(
        "An address on the Hub?",
        f"fit https://huggingface.co/meta-llama/Llama-3.1-8B {A100} {SERVE} {ONE}",
        FITS,
    ),
    ask("An id?", f"fit meta-llama/Llama-3.1-8B-Instruct {A100} {SERVE} {ONE}", FITS),
    ask(
        "A name with a letter missing?",
        f"fit lama-3.1-8b {A100} {SERVE} {ONE}",
        REFUSED,
        "Did you mean llama-3.1-8b",
    ),
    ask("A model of my own?", f"fit acme/secret-9b {A100} {SERVE} {ONE}", REFUSED, "config.json"),
    ask(
        "The same for a script?",
        f"fit acme/secret-9b {A100} {SERVE} {ONE} --json",
        REFUSED,
        '"type": "unknown-model"',
        '"status": 422',
    ),
    ask(
        "A larger T5?",
        f"fit t5-11b {A100} {TRAIN} --sequence-length 512",
        DOES_NOT_FIT,
        "remedies: ",
    ),
)

COMMANDS = (
    ask(
        "Does it run at all?",
        "fit llama-3.1-8b --gpu B200",
        FITS,
        "15.73 GiB per GPU",
        "--num-sequences and --prompt-tokens for your load, or --task train",
    ),
    ask(
        "Which task?",
        "ceilings llama-3.1-8b --gpu B200 --maximize num_images",
        REFUSED,
        "--task train or --task serve",
    ),
    ask("On which GPU?", f"fit llama-3.1-8b {SERVE} {ONE}", REFUSED, "--gpu-memory 80Gi"),
    ask(
        "A word with a letter missing?",
        f"fit llama-3.1-8b {A100} {SERVE} --num-sequence 1 --prompt-tokens 1024",
        REFUSED,
        "Did you mean --num-sequences?",
    ),
    ask("An optimizer that is none?", f"{_SMALL} {H100} --optimizer adamww", REFUSED, "'adamw'"),
    ask("Which GPUs are there?", "gpus", FITS, "H100-SXM5-80GB", "RTX-4090"),
    ask("Which families are modelled?", "families", FITS, "mixtral", "whisper"),
    ask("How do I ask?", "help fit", FITS, "usage: headroom fit"),
    ask("A command that is none?", "fitt llama-3.1-8b", REFUSED, "Did you mean 'fit'?"),
    ask(
        "How large a model on 24 GB?",
        f"ceilings --gpu RTX-4090 {SERVE} --maximize model --prompt-tokens 1024",
        REFUSED,
        "num_parameters",
    ),
    ask(
        "How many parameters on 24 GB?",
        f"ceilings --gpu RTX-4090 {SERVE} {ONE} --maximize num_parameters",
        FITS,
        "number of parameters up to",
    ),
    ask("Does it fit for sure?", f"{_SMALL} {H100} --strict", FITS, "fits"),
    ask("With a batch of zero?", f"{_SMALL} {H100} --micro-batch-size 0", REFUSED, "integer >= 1"),
    ask("With half a layer?", f"{_SMALL} {H100} --tensor-parallel 3", REFUSED, "tensor_parallel"),
)
