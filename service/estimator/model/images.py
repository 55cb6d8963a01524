"""Images in a request, and the weights that they alone train.

Each sequence has a number of images, and each image a number of tokens.
"""

from dataclasses import dataclass, field

from service.estimator.model.adapters.parameters import ADAPTER_PARTS
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.processors.processor import CountedItem, Processor
from service.estimator.values.batches import Inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Equal images, or frames, in pixels as the encoder reads them."""

    count: int
    height: int
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Images of each sequence, and the tokens of one image.

    ``num_pairs`` sequences are compared with as many images. ``grids`` are their sizes where those
    were named; ``markers`` the special tokens that the processor writes around all of them.
    """

    per_sequence: int
    tokens: int
    num_pairs: int = 0
    grids: tuple[Grid, ...] = ()
    features: int = 0
    """Features of all images of a sequence, where the sizes were named."""
    markers: int = 0

    @property
    def sequence_tokens(self) -> int:
        """Tokens of a sequence that its images take."""
        return (self.features or self.per_sequence * self.tokens) + self.markers


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInput:
    """Image input of a model.

    ``tokens`` is the fixed number that one image takes, or None where its size decides;
    ``every_sequence`` has exactly one image where there is nothing else to read (ViT) or to compare
    with (CLIP). Without images ``weights`` and ``linears`` get no gradient; with them
    ``unread_weights`` and ``unread_linears`` get none.
    """

    tokens: int | None
    processor: Processor
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
        object.__setattr__(self, "idle_names", collect_names(self.weights, self.linears))
        object.__setattr__(
            self, "unread_names", collect_names(self.unread_weights, self.unread_linears)
        )

    @property
    def num_layers(self) -> int:
        """Number of the tower's layers.

        Their weights' names have it behind the tower's name.
        """
        return len({weight.name.split(".")[1] for weight in self.layer_weights})

    def get_idle_names(self, images: Images | None) -> frozenset[str]:
        """Return the names of the weights without gradients.

        Those of adapters are among them.
        """
        return self.idle_names if images is None else self.unread_names

    def read(
        self,
        *,
        num_images: int | None,
        image_tokens: int | None,
        num_sequences: int,
        inputs: Inputs | None = None,
    ) -> Images | None:
        """Return the images of a request, or None without any.

        ``inputs`` has them in pixels, the other two as numbers.
        """
        pairs = num_sequences if self.contrasts else 0
        if inputs is not None:
            return _build_images(self.processor.count_items(inputs), pairs)
        if num_images is None and image_tokens is None and not self.every_sequence:
            return None
        tokens = self.tokens or image_tokens or 0
        return Images(
            per_sequence=num_images or 1,
            tokens=tokens,
            num_pairs=pairs,
        )


def _build_images(items: tuple[CountedItem, ...], num_pairs: int) -> Images | None:
    """Return images of any sizes, each piece an image to the encoder."""
    if not items:
        return None
    grids = tuple(
        Grid(count=counted.count * crop.count, height=crop.height, width=crop.width)
        for counted in items
        for crop in counted.item.crops
    )
    features = sum(counted.count * counted.item.features for counted in items)
    number = sum(grid.count for grid in grids)
    return Images(
        per_sequence=number,
        tokens=features // number,
        num_pairs=num_pairs,
        grids=grids,
        features=features,
        markers=sum(counted.count * counted.item.markers for counted in items),
    )


def collect_names(weights: tuple[Weight, ...], linears: tuple[Linear, ...]) -> frozenset[str]:
    """Return the names of weights and of adapters on linear layers."""
    adapters = (f"{layer.name}.{part}" for layer in linears for part in ADAPTER_PARTS)
    return frozenset((*(weight.name for weight in weights), *adapters))
