"""Images in a request, and the weights that they alone train.

Each sequence has a number of images, and each image a number of tokens.
"""

from dataclasses import dataclass, field

from service.estimator.model.weights.tensors import Linear, Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Images of each sequence, and the tokens of one image.

    ``num_pairs`` sequences are compared with as many images.
    """

    per_sequence: int
    tokens: int
    num_pairs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInput:
    """Image input of a model.

    ``tokens`` is the fixed number that one image takes, or None where its size decides;
    ``every_sequence`` has exactly one image where there is nothing else to read (ViT) or to compare
    with (CLIP). Without images ``weights`` and ``linears`` get no gradient; with them
    ``unread_weights`` and ``unread_linears`` get none.
    """

    tokens: int | None
    every_sequence: bool = False
    contrasts: bool = False
    pixels: int = 0
    """Numbers that make up one input image, the largest where its size decides; 0 where that has no
    limit.
    """
    most_tokens: int = 0
    """The tokens of the largest image, where its size decides."""
    unread: bool = False
    """Whether images have no term yet, so that a request for them is refused."""
    weights: tuple[Weight, ...] = ()
    linears: tuple[Linear, ...] = ()
    unread_weights: tuple[Weight, ...] = ()
    unread_linears: tuple[Linear, ...] = ()
    layer_weights: tuple[Weight, ...] = ()
    """The parameter tensors of a tower's layers, each of which is a sharded unit beside those of
    the language model.
    """
    idle_names: frozenset[str] = field(init=False)
    unread_names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Name both kinds of weights without gradients once."""
        object.__setattr__(self, "idle_names", _collect_names(self.weights, self.linears))
        object.__setattr__(
            self, "unread_names", _collect_names(self.unread_weights, self.unread_linears)
        )

    def get_idle_names(self, images: Images | None) -> frozenset[str]:
        """Return the names of the weights without gradients.

        Those of adapters are among them.
        """
        return self.idle_names if images is None else self.unread_names

    def read(
        self, *, num_images: int | None, image_tokens: int | None, num_sequences: int
    ) -> Images | None:
        """Return the images of a request, or None without any."""
        if num_images is None and image_tokens is None and not self.every_sequence:
            return None
        tokens = self.tokens or image_tokens or 0
        return Images(
            per_sequence=num_images or 1,
            tokens=tokens,
            num_pairs=num_sequences if self.contrasts else 0,
        )


def _collect_names(weights: tuple[Weight, ...], linears: tuple[Linear, ...]) -> frozenset[str]:
    """Return the names of weights and of adapters on linear layers."""
    adapters = (f"{layer.name}.{part}" for layer in linears for part in ("lora_A", "lora_B"))
    return frozenset((*(weight.name for weight in weights), *adapters))
