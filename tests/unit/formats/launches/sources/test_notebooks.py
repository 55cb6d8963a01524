"""Notebooks, read as the Python of their cells."""

import json
from collections.abc import Sequence

import pytest

from service.formats.launches.sources.notebooks import drop_outputs, read_notebook
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.launch import Launcher
from tests.unit.formats.launches.importing import get_part, import_launch

CELLS = [
    ["%%capture\n", "import os\n", "if True:\n", "    !pip install unsloth \\\n", "      trl\n"],
    ["from unsloth import FastLanguageModel\n", "n = 1024\n"],
    "model, _ = FastLanguageModel.from_pretrained('unsloth/Llama-2-7b-bnb-4bit', max_seq_length=n)",
    ["%%bash\n", "nvidia-smi --query-gpu=name"],
    ["model = FastLanguageModel.get_peft_model(model, r=8, target_modules=['q_proj'])\n"],
    ["this is no Python(\n"],
    [
        "from trl import SFTTrainer, SFTConfig\n",
        "trainer = SFTTrainer(model=model, args=SFTConfig(per_device_train_batch_size=3))\n",
        "%time trainer.train()",
    ],
]


def make_notebook(sources: Sequence[object], form: int = 4) -> str:
    """Return a notebook with an output beside each cell."""
    cells = [
        {
            "cell_type": "code",
            "outputs": [{"text": "x" * 9}],
            "source" if form == 4 else "input": source,
        }
        for source in sources
    ]
    cells.insert(0, {"cell_type": "markdown", "source": "from unsloth import nothing("})
    body = {"cells": cells} if form == 4 else {"worksheets": [{"cells": cells}]}
    return json.dumps(body | {"nbformat": form})


@pytest.mark.parametrize("form", [3, 4])
def test_a_notebook_is_the_calls_of_its_cells(form: int) -> None:
    """No launcher was known by one, though all of Unsloth's examples are notebooks."""
    imported = import_launch({"qlora.ipynb": make_notebook(CELLS, form)})

    workload = get_part(imported, "workload")
    assert imported.launcher is Launcher.UNSLOTH
    assert imported.question["model"] == "unsloth/Llama-2-7b"
    assert (workload["sequence_length"], workload["micro_batch_size"]) == (1024, 3)
    assert workload["lora"]["rank"] == 8


def test_lines_keep_their_numbers() -> None:
    """A place in an answer is a line of the cells as they stand."""
    text = read_notebook("a.ipynb", make_notebook(CELLS))

    lines = text.split("\n")
    assert lines[3:5] == ["    pass", ""]
    assert len(lines) == sum("".join(cell).count("\n") + 1 for cell in CELLS) + 1
    assert "Python(" not in text


def test_outputs_do_not_count() -> None:
    """The command leaves out what a run printed, which may have megabytes."""
    text = make_notebook(CELLS).replace("x" * 9, "x" * 200_000)

    assert len(drop_outputs(text)) < len(make_notebook(CELLS))
    assert read_notebook("a.ipynb", drop_outputs(text)) == read_notebook("a.ipynb", text)
    assert drop_outputs("no notebook") == "no notebook"


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("{", "is no notebook: it is not JSON"),
        ("[" * 100_000, "is no notebook: it is not JSON"),
        ("[]", "it has no cell of code"),
        (json.dumps({"cells": [{"cell_type": "markdown"}, 3]}), "it has no cell of code"),
        ('{"cells": "' + "x" * 1_000_000 + '"}', "1,000,000 are read at most"),
    ],
)
def test_what_is_no_notebook_is_refused(text: str, refusal: str) -> None:
    """Bad input is told what would be right."""
    with pytest.raises(LaunchFormatError, match=refusal):
        import_launch({"a.ipynb": text})
