"""Recording of a pipeline: configs in, weights and passes out."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from service.estimator.pipelines.extents import Extents
from service.probing.refusal import Refusal
from worker.probes.pipelines.calls import (
    count_tensor_bytes,
    encode_prompts,
    make_latents,
    set_tokens,
    shorten,
)
from worker.probes.pipelines.components import build_component
from worker.probes.pipelines.describing import (
    DTYPES,
    describe_component,
    describe_releases,
    list_watched,
)
from worker.probes.pipelines.drives import Drive, Encoder, make_arguments
from worker.probes.pipelines.fitting import fit_sizes
from worker.probes.pipelines.passes import fit_log, fit_peaks, prove_depth, to_rows
from worker.probes.pipelines.sources import Source, read_source
from worker.probes.pipelines.stubs import STEPS
from worker.probes.pipelines.tiles import TILED, record_output, record_tile
from worker.probes.pipelines.tracing import Trace, trace, use_fake_tensors

FORMAT = 1
_SEVERAL = tuple(
    Extents(batch=b, height=h, width=w, frames=f, tokens=t)
    for b, h, w, f, t in (
        (2, 4, 6, 2, 64),
        (3, 6, 4, 3, 64),
        (2, 8, 10, 2, 96),
        (4, 4, 14, 5, 80),
        (3, 10, 6, 4, 128),
        (5, 6, 8, 6, 72),
    )
)
"""Extents that determine the sizes. All have whole multiples of eight tokens."""
_PROOF = Extents(batch=3, height=14, width=16, frames=5, tokens=112)
"""Extents to which nothing was fitted."""


def record_pipeline(
    document: Mapping[str, Any], say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Record a pipeline; return the document that answers from it.

    Raises Refusal for what cannot be built or run, or follows no polynomial.
    """
    source = read_source(document)
    drive = source.drive
    recorded: dict[str, Any] = {
        "format": FORMAT,
        **describe_releases(),
        "class": source.class_name,
        "model_index": document["model_index"],
        "pixel_step": drive.pixel_step,
        "latent_pixels": drive.latent_pixels,
        "frame_step": drive.frame_step,
        "max_tokens": drive.max_tokens,
        "fixed_tokens": drive.fixed_tokens,
        "token_multiple": drive.token_multiple,
        "encoders": {
            name: {"max_tokens": encoder.max_tokens, "template_tokens": encoder.template_tokens}
            for name, encoder in drive.encoders.items()
        },
        "components": {},
        "passes": {},
        "tile_outputs": {},
    }
    for name in source.components:
        say(f"counting {name}")
        recorded["components"][name] = describe_component(source, name)
    recorded["inputs"] = record_inputs(source)
    recorder = _Recorder(source=source, drive=drive, say=say)
    for dtype in ("bf16", "fp32"):
        recorded["passes"] |= recorder.record_encoders(dtype)
        recorded["passes"] |= recorder.record_decoder(dtype)
        recorded["passes"] |= recorder.record_tiles(dtype)
        recorded["tile_outputs"] |= recorder.record_tile_outputs(dtype)
        if dtype == "bf16" or "unet" in source.components:
            recorded["passes"] |= recorder.record_loop(dtype)
    return recorded


def record_inputs(source: Source) -> dict[str, Any]:
    """Return the bytes of the loop's inputs and latents in bf16."""
    recorder = _Recorder(source=source, drive=source.drive, say=lambda _: None)
    names = {name for name in source.components if name not in source.drive.encoders}
    inputs = {}
    with use_fake_tensors():
        pipe, _ = recorder.build("bf16", names, is_short=True)
        extents = [recorder.set_extents(part, single=False) for part in _SEVERAL]
        for word in ("guided", "plain"):
            sizes = [
                count_tensor_bytes(
                    make_arguments(source.drive, pipe, part, guided=word == "guided")
                )
                for part in extents
            ]
            inputs[word] = to_rows(fit_sizes(sizes, extents))
        latents = [make_latents(source.drive, pipe, part, torch.bfloat16) for part in extents]
        inputs["latents"] = to_rows(fit_sizes([part.nbytes for part in latents], extents))
    return inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorder:
    """Records the passes of a pipeline in one format after another."""

    source: Source
    drive: Drive
    say: Callable[[str], None]

    def record_encoders(self, dtype: str) -> dict[str, Any]:
        """Return a log for each text encoder."""
        logs = {}
        for name, encoder in self.drive.encoders.items():
            if name in self.source.components:
                self.say(f"recording {name} in {dtype}")
                logs[f"{name}/{dtype}"] = self._record_encoder(name, encoder, dtype)
        return logs

    def _record_encoder(self, name: str, encoder: Encoder, dtype: str) -> dict[str, Any]:
        with use_fake_tensors():
            library, class_name, config = self.source.components[name]
            module = build_component(library, class_name, config, DTYPES[dtype])
            modules = {name: module}

            def run(extents: Extents) -> Trace:
                def call(end: Callable[[], None]) -> object:
                    return encode_prompts(module, encoder, extents, end)

                return trace(modules, call, list_watched(modules))

            several = [set_tokens(extents, encoder) for extents in _SEVERAL]
            return fit_log(run, several, [set_tokens(_PROOF, encoder)])

    def record_loop(self, dtype: str) -> dict[str, Any]:
        """Return logs of the loop, guided or not, by batch."""
        logs = {}
        for guided in (True, False) if self.drive.guide else (False,):
            for single in (True,) if self.drive.is_single else (True, False):
                name = f"loop/{'guided' if guided else 'plain'}/{'one' if single else 'several'}"
                self.say(f"recording {name} in {dtype}")
                logs[f"{name}/{dtype}"] = self._record_loop(dtype, guided=guided, single=single)
        return logs

    def _record_loop(self, dtype: str, *, guided: bool, single: bool) -> dict[str, Any]:
        with use_fake_tensors():
            run = self._make_loop(dtype, guided=guided, is_short=True)
            prove = self._make_loop(dtype, guided=guided, is_short=False)
            chosen = _SEVERAL[:4] if single else _SEVERAL
            several = [self.set_extents(extents, single=single) for extents in chosen]
            proof = self.set_extents(_PROOF, single=single)
            recorded = fit_log(run, several, [proof])
            prove_depth(recorded, prove(proof), proof)
            return recorded

    def _make_loop(self, dtype: str, *, guided: bool, is_short: bool) -> Callable[[Extents], Trace]:
        names = {name for name in self.source.components if name not in self.drive.encoders}
        pipe, modules = self.build(dtype, names, is_short=is_short)
        denoisers = {name: part for name, part in modules.items() if name != "vae"}

        def run(extents: Extents) -> Trace:
            arguments = make_arguments(self.drive, pipe, extents, guided=guided)

            def call(end: Callable[[], None]) -> object:
                pipe.maybe_free_model_hooks = end
                return pipe(**arguments, num_inference_steps=STEPS, output_type="latent")

            return trace(denoisers, call, list_watched(denoisers))

        return run

    def record_decoder(self, dtype: str) -> dict[str, Any]:
        """Return logs of the decoder's part, of one image and of several."""
        logs = {}
        for single in (True, False):
            name = f"decode/{'one' if single else 'several'}/{dtype}"
            self.say(f"recording {name}")
            with use_fake_tensors():
                run = self._make_decoder(dtype)
                if self.drive.frame_step:
                    try:
                        logs[name] = fit_peaks(run, single=single)
                    except Refusal as refusal:
                        self.say(f"{name} is left out: {refusal.message}")
                    continue
                several = [self.set_extents(extents, single=single) for extents in _SEVERAL]
                logs[name] = fit_log(run, several, [self.set_extents(_PROOF, single=single)])
        return logs

    def record_tiles(self, dtype: str) -> dict[str, Any]:
        """Return the passes of one tile of the VAE, if any."""
        logs = {}
        for single in (True, False) if self._has_tiles() else ():
            name = f"tile/{'one' if single else 'several'}/{dtype}"
            self.say(f"recording {name}")
            with use_fake_tensors():
                vae = self._build_vae(dtype)
                logs[name] = record_tile(vae, self.drive, DTYPES[dtype], single=single)
        return logs

    def record_tile_outputs(self, dtype: str) -> dict[str, Any]:
        """Return the bytes of a decoded tile, where tiles are recorded."""
        if not self._has_tiles():
            return {}
        with use_fake_tensors():
            return {dtype: record_output(self._build_vae(dtype), self.drive, DTYPES[dtype])}

    def _has_tiles(self) -> bool:
        return self.source.components["vae"][1] in TILED

    def _build_vae(self, dtype: str) -> Any:  # noqa: ANN401 - a VAE of diffusers
        library, class_name, config = self.source.components["vae"]
        return build_component(library, class_name, config, DTYPES[dtype])

    def _make_decoder(self, dtype: str) -> Callable[[Extents], Trace]:
        names = {name for name in self.source.components if name not in self.drive.encoders}
        pipe, modules = self.build(dtype, names, is_short=True)
        vae = {"vae": modules["vae"]}

        def run(extents: Extents) -> Trace:
            def call(end: Callable[[], None]) -> object:
                # No name of ours holds the latents: the pipeline gives its own to others.
                image = self.drive.decode(
                    pipe, make_latents(self.drive, pipe, extents, DTYPES[dtype]), extents
                )
                end()
                return image

            return trace(vae, call, list_watched(vae))

        return run

    def build(self, dtype: str, names: set[str], *, is_short: bool) -> tuple[Any, dict[str, Any]]:
        """Return the pipeline with these components, and them."""
        modules = {}
        for name in sorted(names):
            library, class_name, config = self.source.components[name]
            arguments = shorten(config) if is_short and name != "vae" else config
            modules[name] = build_component(library, class_name, arguments, DTYPES[dtype])
        pipeline_class = getattr(import_module("diffusers"), self.source.class_name)
        arguments = {
            name: modules.get(name)
            for name, parameter in inspect.signature(pipeline_class.__init__).parameters.items()
            if name != "self" and (parameter.default is inspect.Parameter.empty or name in modules)
        }
        arguments["scheduler"] = self.drive.scheduler()
        pipe = pipeline_class(**{**arguments, **self.drive.options, **self.source.options})
        pipe.set_progress_bar_config(disable=True)
        self.drive.prepare(pipe)
        return pipe, modules

    def set_extents(self, extents: Extents, *, single: bool) -> Extents:
        """Return extents whose pictures and prompts have whole multiples of tokens."""
        multiple = self.drive.token_multiple
        return Extents(
            batch=1 if single else extents.batch,
            height=extents.height,
            width=extents.width * max(1, multiple // 2),
            frames=extents.frames if self.drive.frame_step else 1,
            tokens=extents.tokens * max(1, multiple // 8)
            if self._has_free_tokens()
            else self.drive.max_tokens,
        )

    def _has_free_tokens(self) -> bool:
        return any(encoder.max_tokens == 0 for encoder in self.drive.encoders.values())
