"""Storages of a recorded pass, counted by reference."""

from collections.abc import Mapping

from service.estimator.tape import sizes
from service.estimator.tape.compiling import mypyc_attr
from service.estimator.tape.ledger import Category, Ledger, Section, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


@mypyc_attr(allow_interpreted_subclasses=True)
class StorageCounter:
    """Storages of a pass with their references."""

    def __init__(self, section: Section) -> None:
        """Start without storages."""
        self.ledger = Ledger(section)
        self.reusable_storages: list[Storage] = []
        self.num_saved = 0
        self.stop_after: int | None = None
        self.on_gpu = False
        self.stream = 0
        """That of a GPU on which storages are allocated, of which 0 is the default one."""
        self.unit_tensors: Mapping[int, tuple[int, ...]] = {}
        """Elements of each tensor of a sharded unit, by the elements of all of them."""
        self.follows_caches = False
        """Whether storages of a cache are told apart, each from the one that takes its place."""

    @property
    def stopped(self) -> bool:
        """Whether a recomputation already has everything that backward needs.

        Nothing is allocated any more then.
        """
        return self.stop_after is not None and self.num_saved >= self.stop_after

    def allocate(self, category: Category, size: Size) -> Storage:
        """Return a new storage with one reference.

        Where a selective checkpoint kept one for this operation, that one is returned.
        """
        if self.reusable_storages:
            return self.reusable_storages.pop(0)
        storage = Storage(category, sizes.ZERO if self.stopped else size)
        self.ledger.add(category, storage.size)
        return storage

    def scratch(self, numel: Size, dtype: DType) -> Storage:
        """Return a new temporary storage of so many elements."""
        return self.allocate(Category.TEMPORARIES, count_bytes(numel, dtype))

    def hold(self, storage: Storage) -> Storage:
        """Add a reference."""
        storage.references += 1
        return storage

    def hold_value(self, value: Value) -> None:
        """Add a reference to a value's storage."""
        if value.storage is not None:
            value.storage.references += 1

    def release(self, *storages: Storage) -> None:
        """Drop a reference of each; the last one frees."""
        for storage in storages:
            storage.references -= 1
            if storage.references == 0:
                self.ledger.remove(storage.category, storage.size)

    def free(self, *values: Value) -> None:
        """Drop the Python names of values."""
        for value in values:
            if value.storage is not None:
                self.release(value.storage)

    def alias(self, value: Value) -> Value:
        """Return another Python name of the same tensor."""
        if value.storage is not None:
            self.hold(value.storage)
        other = Value(value.storage, value.numel, value.dtype, value.node)
        other.parameter = value.parameter
        other.requires_grad = value.requires_grad
        return other

    def keep_cached(self, storage: Storage) -> None:
        """Note a storage that stays in a cache after the pass."""

    def drop_cached(self, count: int) -> None:
        """Note that storages of the cache are dropped.

        They are the next ones of those that were there before the pass.
        """

    def use_workspace(self, *, has_bias: bool = False) -> None:
        """Note a product.

        A thread's first one makes the workspace of its library; ``has_bias``: cuBLASLt's too.
        """

    def use_reduction(self, outputs: Size, total: Size) -> None:
        """Note a sum of ``total`` elements over rows of ``outputs``."""

    def use_embedding_sums(self, width: int, indices: Size, table_rows: int) -> None:
        """Note the gradient of a table of ``table_rows`` rows, ``width`` elements each."""

    def gather(self, elements: int, bytes_each: int, *, casts: bool = False) -> list[Storage]:
        """Return the gathered parameters of a unit, so many elements in all.

        ``casts``: each is cast before it is copied.
        """
        if casts:
            return self.gather_tensors(elements, bytes_each, casts=True)
        return [self.allocate(Category.GATHERED_WEIGHTS, sizes.constant(elements * bytes_each))]

    def gather_tensors(self, elements: int, bytes_each: int, *, casts: bool) -> list[Storage]:
        """Return the gathered parameters one by one.

        FSDP2 copies them out so (``FSDPParam.alloc_all_gather_outputs``). A single rank names each
        cast until it has made the next one (``_fsdp_param_group.py``, ``wait_for_unshard``).
        """
        gathered: list[Storage] = []
        cast: list[Storage] = []
        for numel in self.unit_tensors.get(elements, (elements,)):
            size = sizes.constant(numel * bytes_each)
            if casts:
                latest = self.allocate(Category.GATHERED_WEIGHTS, size)
                self.release(*cast)
                cast = [latest]
            gathered.append(self.allocate(Category.GATHERED_WEIGHTS, size))
        self.release(*cast)
        return gathered
