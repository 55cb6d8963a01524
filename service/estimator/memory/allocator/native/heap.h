/* A heap: its blocks, its pools, and what it counts. */

#ifndef HEADROOM_HEAP_H
#define HEADROOM_HEAP_H

#include "addresses.h"
#include "pool.h"

#define SMALL 2048            /* kSmallSize: requests up to 1 MiB come from the pool of small blocks */
#define SMALL_SEGMENT 4096    /* kSmallBuffer: its segments have 2 MiB */
#define LARGE 20480           /* kMinLargeAlloc: requests from 10 MiB on get a segment of their size */
#define LARGE_SEGMENT 40960   /* kLargeBuffer: requests between get a segment of 20 MiB */
#define ROUND_SIZE 4096       /* kRoundLarge: larger segments are rounded up to 2 MiB */
#define SMALL_ADDRESS ((int64_t)1 << 39)

typedef struct {
    PyObject_HEAD
    Block *blocks;
    Py_ssize_t count, capacity;
    int32_t spare; /* the first of those out of use, linked by what follows */
    Pool **pools;
    Py_ssize_t num_pools;
    int is_expandable;
    long long reserved, allocated, highest, requested, highest_requested;
    int64_t limit;
    Addresses addresses;
    PyObject *full_error;
} Heap;

static int64_t round_up(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

static int64_t floor_to(int64_t value, int64_t unit) {
    int64_t rest = value % unit;
    return value - (rest < 0 ? rest + unit : rest);
}

static int32_t make_block(Heap *heap, int64_t address, int64_t size, int32_t pool) {
    int32_t index = heap->spare;
    if (index != NONE) {
        heap->spare = heap->blocks[index].after;
    } else {
        if (heap->count == heap->capacity) {
            Py_ssize_t capacity = heap->capacity ? 2 * heap->capacity : 256;
            Block *blocks = PyMem_Realloc(heap->blocks, capacity * sizeof(Block));
            if (blocks == NULL || capacity > (Py_ssize_t)1 << INDEX_BITS) {
                heap->blocks = blocks == NULL ? heap->blocks : blocks;
                PyErr_NoMemory();
                return NONE;
            }
            heap->blocks = blocks;
            heap->capacity = capacity;
        }
        index = (int32_t)heap->count++;
    }
    heap->blocks[index] = (Block){
        .address = address, .size = size, .before = NONE, .after = NONE, .pool = pool};
    return index;
}

static void link_blocks(Heap *heap, int32_t before, int32_t after) {
    if (before != NONE)
        heap->blocks[before].after = after;
    if (after != NONE)
        heap->blocks[after].before = before;
}

static int add_pool(Heap *heap) {
    int32_t number = (int32_t)heap->num_pools, is_small = number % 2;
    Pool **pools = PyMem_Realloc(heap->pools, (heap->num_pools + 1) * sizeof(Pool *));
    Pool *pool = PyMem_Calloc(1, sizeof(Pool));
    heap->pools = pools == NULL ? heap->pools : pools;
    if (pools == NULL || pool == NULL) {
        PyMem_Free(pool);
        PyErr_NoMemory();
        return -1;
    }
    pools[heap->num_pools++] = pool;
    pool->max_unsplit = is_small || heap->is_expandable ? 0 : SMALL;
    pool->end = NONE;
    if (heap->is_expandable)
        pool->end = make_block(heap, is_small ? SMALL_ADDRESS : 0, 0, number);
    return heap->is_expandable && pool->end == NONE ? -1 : 0;
}

static Place find_best_fit(const Heap *heap, const Pool *pool, int64_t size) {
    Place place = find_fitting(pool, size);
    if (heap->is_expandable && place.bin < NUM_BINS &&
        heap->blocks[get_block(pool, place)].after == pool->end) {
        Place following = find_following(pool, place);
        return following.bin < NUM_BINS ? following : place;
    }
    return place;
}

static int insert_block(Heap *heap, int32_t index) {
    Block *block = &heap->blocks[index];
    return insert(heap->pools[block->pool], block, index);
}

static void pop_block(Heap *heap, int32_t index) {
    const Block *block = &heap->blocks[index];
    Pool *pool = heap->pools[block->pool];
    pop(pool, find_block(pool, block, index));
}

static void drop_block(Heap *heap, int32_t index) {
    heap->blocks[index].is_free = FREED;
    heap->blocks[index].after = heap->spare;
    heap->spare = index;
}

#endif
