"""Walks models whose input is an image: classifiers of images, and pairs of images and texts."""

from service.estimator.model.modules.vision.contrastive_loss import contrastive_loss, similarities, unit_length
from service.estimator.model.modules.vision.encoder import ImageExtent, reading
from service.estimator.model.trees.vision import VisionModel
from service.estimator.passes.step import Step
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.images import gathered_position, pixels_of
from service.estimator.tape.ops.losses import plain_loss
from service.estimator.tape.ops.products import integers
from service.estimator.tape.pass_shape import Extent
from service.estimator.tape.sizes import ZERO, Size


class _ImageStep(Step):
    """What both kinds have in common: pixels that come with the batch."""

    def tower_model(self) -> VisionModel:
        """Return the model as what it is."""
        assert isinstance(self.model, VisionModel)  # noqa: S101 - only such a model names these steps
        return self.model

    def image_extent(self) -> ImageExtent:
        """Return the extent of one image per sequence."""
        return self.tower_model().tower.extent(1)

    def pixels(self) -> Value:
        """Return the pixels that come with a batch, in the dtype of the weights."""
        numel = self.image_extent().images(self.tower_model().tower.pixels.elements)
        return pixels_of(self.tape, numel, self.run.dtype)


class ClassifierStep(_ImageStep):
    """A transformer over one image, and a class for what its first position says (``ViTForImageClassification``)."""

    def inputs(self) -> Value:
        """Return the pixels; a label per image lives as long as they do."""
        self.run.extent = self.image_extent()
        pixels = self.pixels()
        if self.tape.records:
            integers(self.tape, self.image_extent().images(1))
        return pixels

    def hidden_states(self, ids: Value) -> Value:
        """Record patches, layers and the last norm over all positions."""
        model, tape, run = self.tower_model(), self.tape, self.run
        if self.units is not None:
            self.units.open_root(model.counts.outside_blocks, model.counts.largest_block)
        assert model.final_norm is not None  # noqa: S101 - every ViT has one
        first, x = model.whole_tower().record(run, ids, self.image_extent())
        y = run.norm(model.final_norm, x, "")
        tape.free(first, x)
        return y

    def loss(self, hidden: Value, *, keeps_logits: bool) -> Value:
        """Record the head over one position of each image, and the cross entropy in the dtype of the logits."""
        tape = self.tape
        tape.ledger.enter(Section.LOSS_FORWARD)
        logits = self.logits_of(hidden, self.image_extent().images(self.model.vocab_size))
        loss = plain_loss(tape, logits, upcast=False)
        tape.free(hidden)
        if keeps_logits:
            self.logits = logits
        else:
            tape.free(logits)
        return loss

    def logits_of(self, hidden: Value, numel: Size) -> Value:  # noqa: ARG002 - the head reads one position of each image
        """Return a score per class and image; ``hidden`` stays with the caller."""
        model, run, extent = self.tower_model(), self.run, self.image_extent()
        token = model.whole_tower().class_token(run, hidden, extent)
        with reading(run, ImageExtent(num_images=1, positions_per_image=1)):
            logits = run.linear(model.head, token, "", category=Category.LOGITS)
        run.tape.free(token)
        return logits


class ContrastiveStep(_ImageStep):
    """An image tower beside a text tower, and a loss over all pairs of a batch (``CLIPModel.forward``)."""

    def inputs(self) -> Value:
        """Return the token ids; pixels and a mask of padding live as long as they do."""
        self.images = self.pixels()
        return super().inputs()

    def hidden_states(self, ids: Value) -> Value:
        """Record the image tower, then the text tower; what the first gave is held by the model's outputs."""
        run, model, extent = self.run, self.tower_model(), self.image_extent()
        if self.units is not None:
            self.units.open_root(model.counts.outside_blocks, model.counts.largest_block)
        with reading(run, extent):
            first, self.last_image_states = model.tower.record(run, self.images, extent)
            token = model.tower.class_token(run, self.last_image_states, extent)
        run.tape.free(first)
        self.image_embeds = self._projected(token, 0)
        return self.stacked(ids)

    def loss(self, hidden: Value, *, keeps_logits: bool) -> Value:
        """Record both projections' similarities and the loss over rows and columns; the outputs hold all of them."""
        tape = self.tape
        logits = self.logits_of(hidden, ZERO)
        tape.ledger.enter(Section.LOSS_FORWARD)
        loss = contrastive_loss(tape, logits, self.num_pairs())
        if not keeps_logits:
            tape.free(hidden, self.last_image_states, *self.embeds, logits)
        return loss

    def num_pairs(self) -> int:
        """Return how many texts are held against as many images."""
        assert self.run.images is not None  # noqa: S101 - every sequence of such a model has an image
        return self.run.images.num_pairs

    def logits_of(self, hidden: Value, numel: Size) -> Value:  # noqa: ARG002 - one for each pair, which no polynomial counts
        """Return the similarity of every text with every image; ``hidden`` stays with the caller."""
        tape, run = self.tape, self.run
        texts = self.text_embeds(hidden)
        pairs = [unit_length(tape, self.image_embeds), unit_length(tape, texts)]
        self.embeds = (self.image_embeds, texts, *pairs)
        scale = run.parameter(self.tower_model().scale_weight())
        return similarities(run, pairs[1], pairs[0], scale, self.num_pairs())

    def text_embeds(self, hidden: Value) -> Value:
        """Return the projection of the last token of each text; ``hidden`` stays with the caller."""
        model, width = self.tower_model(), self.model.spec.hidden_size
        token = gathered_position(self.tape, hidden, Extent(decoding=True).tokens(width))
        projected = self._projected(token, 1)
        assert model.projections  # noqa: S101 - such a model projects both
        return projected

    def _projected(self, token: Value, index: int) -> Value:
        """Return one row per sequence through a projection; the row is dropped, unless the projection keeps it."""
        run = self.run
        with reading(run, Extent(decoding=True)):
            projected = run.linear(self.tower_model().projections[index], token, "")
        run.tape.free(token)
        return projected
