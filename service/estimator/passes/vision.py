"""Walks over models whose input is an image.

They are classifiers of images, and pairs of images and texts.
"""

from service.estimator.model.modules.vision.contrastive_loss import (
    compute_similarities,
    normalise_embeddings,
    record_contrastive_loss,
)
from service.estimator.model.modules.vision.image_shape import ImageShape, record_over_images
from service.estimator.model.root_unit import open_joint_root
from service.estimator.model.trees.vision import VisionModel
from service.estimator.passes.step import ModelWalk
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.images import gather_position
from service.estimator.tape.ops.loss.losses import compute_unshifted_loss
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.tape.pass_shape import PassShape
from service.estimator.tape.sizes import ZERO, Size


class _ImageStep(ModelWalk):
    """Walk over pixels that come with the batch."""

    def tower_model(self) -> VisionModel:
        """Return the model as a vision model."""
        assert isinstance(self.model, VisionModel)  # noqa: S101 - only such a model names these steps
        return self.model

    def image_shape(self) -> ImageShape:
        """Return the shape of one image per sequence."""
        return self.tower_model().tower.build_shape(1)

    def pixels(self) -> Value:
        """Return the pixels of a batch, in the dtype of the weights."""
        numel = self.image_shape().images(self.tower_model().tower.patch_embeddings.elements)
        return self.ctx.take_input(numel)


class ClassifierStep(_ImageStep):
    """Transformer over one image, and a classifier (``ViTForImageClassification``).

    The classifier reads the first position.
    """

    def inputs(self) -> Value:
        """Return the pixels of a batch.

        A label per image lives as long as they do.
        """
        self.ctx.shape, self.ctx.reads_ids = self.image_shape(), False
        pixels = self.pixels()
        if self.tape.builds_graph:
            allocate_integers(self.tape, self.image_shape().images(1))
        return pixels

    def hidden_states(self, ids: Value) -> Value:
        """Record patches, layers and the last norm over all positions."""
        model, tape, ctx = self.tower_model(), self.tape, self.ctx
        if self.units is not None:
            open_joint_root(ctx, model, self.units)
        assert model.final_norm is not None  # noqa: S101 - every ViT has one
        first, x = model.get_tower().record(ctx, ids, self.image_shape())
        y = ctx.norm(model.final_norm, x, "")
        tape.free(first, x)
        return y

    def loss(self, hidden: Value, *, keeps_logits: bool) -> Value:
        """Record the head over one position of each image, and the loss.

        The cross entropy is in the dtype of the logits.
        """
        tape = self.tape
        tape.ledger.enter(Section.LOSS_FORWARD)
        logits = self.record_logits(hidden, self.image_shape().images(self.model.vocab_size))
        loss = compute_unshifted_loss(tape, logits, upcast=False)
        tape.free(hidden)
        if keeps_logits:
            self.logits = logits
        else:
            tape.free(logits)
        return loss

    def record_logits(self, hidden: Value, numel: Size) -> Value:  # noqa: ARG002 - the head reads one position of each image
        """Return a score per class and image; the caller keeps ``hidden``."""
        model, ctx, shape = self.tower_model(), self.ctx, self.image_shape()
        token = model.get_tower().get_class_token(ctx, hidden, shape)
        with record_over_images(ctx, ImageShape(num_images=1, positions_per_image=1)):
            logits = ctx.linear(model.head, token, "", category=Category.LOGITS)
        ctx.tape.free(token)
        return logits


class ContrastiveStep(_ImageStep):
    """Image and text towers with a contrastive loss (``CLIPModel.forward``).

    The loss is over all pairs of a batch.
    """

    def inputs(self) -> Value:
        """Return the token ids.

        Pixels and a mask of padding live as long as they do.
        """
        self.images = self.pixels()
        return super().inputs()

    def hidden_states(self, ids: Value) -> Value:
        """Record the image tower, then the text tower.

        The model's outputs hold the image tower's output.
        """
        ctx, model, shape = self.ctx, self.tower_model(), self.image_shape()
        if self.units is not None:
            open_joint_root(ctx, model, self.units)
        with record_over_images(ctx, shape):
            first, self.last_image_states = model.tower.record(ctx, self.images, shape)
            token = model.tower.get_class_token(ctx, self.last_image_states, shape)
        ctx.tape.free(first)
        self.image_embeds = self._project(token, 0)
        return self.record_layers(ids)

    def loss(self, hidden: Value, *, keeps_logits: bool) -> Value:
        """Record both projections' similarities and the loss.

        The loss is over rows and columns; the outputs hold all of them.
        """
        tape = self.tape
        logits = self.record_logits(hidden, ZERO)
        tape.ledger.enter(Section.LOSS_FORWARD)
        loss = record_contrastive_loss(tape, logits, self.num_pairs())
        if keeps_logits:
            self.logits, self.outputs = logits, (*self.embeds, hidden, self.last_image_states)
        else:
            tape.free(hidden, self.last_image_states, *self.embeds, logits)
        return loss

    def num_pairs(self) -> int:
        """Return the number of texts compared with as many images."""
        assert self.ctx.settings.images is not None  # noqa: S101 - every sequence of such a model has an image
        return self.ctx.settings.images.num_pairs

    def record_logits(self, hidden: Value, numel: Size) -> Value:  # noqa: ARG002 - one for each pair, which no polynomial counts
        """Return the similarity of every text with every image.

        ``hidden`` stays with the caller.
        """
        tape, ctx = self.tape, self.ctx
        texts = self.text_embeds(hidden)
        pairs = [normalise_embeddings(tape, self.image_embeds), normalise_embeddings(tape, texts)]
        self.embeds = (self.image_embeds, texts, *pairs)
        scale = ctx.parameter(self.tower_model().scale_weight())
        return compute_similarities(ctx, pairs[1], pairs[0], scale, self.num_pairs())

    def text_embeds(self, hidden: Value) -> Value:
        """Return the projection of the last token of each text.

        ``hidden`` stays with the caller.
        """
        model, width = self.tower_model(), self.model.spec.hidden_size
        token = gather_position(self.tape, hidden, PassShape(decoding=True).tokens(width))
        projected = self._project(token, 1)
        assert model.projections  # noqa: S101 - such a model projects both
        return projected

    def _project(self, token: Value, index: int) -> Value:
        """Return one row per sequence through a projection.

        The row is dropped, unless the projection keeps it.
        """
        ctx = self.ctx
        with record_over_images(ctx, PassShape(decoding=True)):
            projected = ctx.linear(self.tower_model().projections[index], token, "")
        ctx.tape.free(token)
        return projected
