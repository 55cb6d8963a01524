/* Release of cached memory on a full GPU: the rules of pressure.py. */

#ifndef HEADROOM_PRESSURE_H
#define HEADROOM_PRESSURE_H

#include "heap.h"

static void release_segments(Heap *heap, Pool *pool) {
    Place place = find_filled(pool, 0);
    while (place.bin < NUM_BINS) {
        int32_t index = get_block(pool, place);
        const Block *block = &heap->blocks[index];
        if (block->before != NONE || block->after != NONE) {
            place = find_following(pool, place);
            continue;
        }
        heap->reserved -= block->size;
        drop_block(heap, index);
        pop(pool, place);
        if (place.index == pool->bins[place.bin].count)
            place = find_filled(pool, place.bin + 1);
    }
}

/* Take the pages between two addresses out of a free block, for good. */
static int unmap(Heap *heap, int32_t index, int64_t begin, int64_t end) {
    int32_t number = heap->blocks[index].pool, hole = index;
    int64_t first = heap->blocks[index].address, last = first + heap->blocks[index].size;
    pop_block(heap, index);
    heap->blocks[index].is_free = 0;
    if (begin > first) {
        if ((hole = make_block(heap, begin, end - begin, number)) == NONE)
            return -1;
        link_blocks(heap, hole, heap->blocks[index].after);
        link_blocks(heap, index, hole);
        heap->blocks[index].size = begin - first;
        if (insert_block(heap, index) < 0)
            return -1;
    } else {
        heap->blocks[hole].size = end - begin;
    }
    if (last == end)
        return 0;
    int32_t rest = make_block(heap, end, last - end, number);
    if (rest == NONE)
        return -1;
    link_blocks(heap, rest, heap->blocks[hole].after);
    link_blocks(heap, hole, rest);
    return insert_block(heap, rest);
}

/* Unmap all whole pages of the blocks that are free now: what is left of one has none. */
static int unmap_pages(Heap *heap, int32_t number) {
    int64_t page = number % 2 ? SMALL_SEGMENT : LARGE_SEGMENT;
    for (Py_ssize_t index = 0, count = heap->count; index < count; index++) {
        const Block *block = &heap->blocks[index];
        int64_t begin = floor_to(block->address + page - 1, page);
        int64_t end = floor_to(block->address + block->size, page);
        if (block->pool != number || block->is_free != 1 || end <= begin)
            continue;
        heap->reserved -= end - begin;
        if (unmap(heap, (int32_t)index, begin, end) < 0)
            return -1;
    }
    return 0;
}

/* Release what is cached where a request goes beyond the limit, and raise if that is not enough. */
static int make_room(Heap *heap, int64_t growth, int64_t size) {
    if (heap->full_error == NULL || heap->reserved + growth <= heap->limit)
        return heap->reserved + growth < MAX_SIZE ? 0 : raise_beyond();
    for (Py_ssize_t number = 0; number < heap->num_pools; number++) {
        if (!heap->is_expandable)
            release_segments(heap, heap->pools[number]);
        else if (unmap_pages(heap, (int32_t)number) < 0)
            return -1;
    }
    if (heap->reserved + size > heap->limit) {
        PyErr_SetNone(heap->full_error);
        return -1;
    }
    return heap->reserved + size < MAX_SIZE ? 0 : raise_beyond();
}

#endif
