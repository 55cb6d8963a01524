/* Allocations and releases: the rules of caching_allocator.py, step by step.

   Sizes and addresses are in blocks of 512 bytes. Functions that fail return -1 with Python's error
   set. */

#ifndef HEADROOM_REQUESTS_H
#define HEADROOM_REQUESTS_H

#include "pressure.h"

/* Add a segment that touches no other: blocks merge within one. */
static int reserve_segment(Heap *heap, int32_t number, int64_t size) {
    int64_t segment = number % 2 ? SMALL_SEGMENT
                      : size < LARGE ? LARGE_SEGMENT
                                     : round_up(size, ROUND_SIZE);
    if (make_room(heap, segment, segment) < 0)
        return -1;
    int64_t address;
    if (take_address(&heap->addresses, segment, &address) < 0)
        return -1;
    int32_t index = make_block(heap, address, segment, number);
    if (index == NONE || insert_block(heap, index) < 0)
        return -1;
    heap->reserved += segment;
    return 0;
}

/* Grow the segment by whole pages, from a free last block. */
static int grow_segment(Heap *heap, int32_t number, int64_t size) {
    int64_t page = number % 2 ? SMALL_SEGMENT : LARGE_SEGMENT;
    int32_t end = heap->pools[number]->end, last = heap->blocks[end].before;
    int is_free = last != NONE && heap->blocks[last].is_free;
    int64_t growth = round_up(size - (is_free ? heap->blocks[last].size : 0), page);
    if (make_room(heap, growth, round_up(size, page)) < 0)
        return -1;
    if (heap->blocks[end].address - (number % 2 ? SMALL_ADDRESS : 0) >= MAX_ADDRESS - MAX_SIZE)
        return raise_beyond();
    last = heap->blocks[end].before;
    int32_t index = last;
    if (last != NONE && heap->blocks[last].is_free) {
        pop_block(heap, last);
    } else {
        if ((index = make_block(heap, heap->blocks[end].address, 0, number)) == NONE)
            return -1;
        link_blocks(heap, last, index);
        link_blocks(heap, index, end);
    }
    growth = round_up(size - heap->blocks[index].size, page);
    heap->blocks[index].size += growth;
    heap->blocks[end].address += growth;
    heap->reserved += growth;
    return insert_block(heap, index);
}

/* The smallest free block, or a part of a new segment; NONE and an error where there is none. */
static int32_t allocate(Heap *heap, int64_t size, int64_t stream) {
    if (size <= 0 || size >= MAX_SIZE || stream < 0 || stream >= 1 << 20) {
        PyErr_SetString(PyExc_ValueError, "a size or a stream is out of range");
        return NONE;
    }
    int32_t number = (int32_t)(2 * stream + (size <= SMALL));
    while (heap->num_pools <= 2 * stream + 1)
        if (add_pool(heap) < 0)
            return NONE;
    Pool *pool = heap->pools[number];
    Place place = find_best_fit(heap, pool, size);
    if (place.bin == NUM_BINS) {
        if ((heap->is_expandable ? grow_segment : reserve_segment)(heap, number, size) < 0)
            return NONE;
        place = find_best_fit(heap, pool, size);
    }
    int32_t index = get_block(pool, place);
    int64_t left = heap->blocks[index].size - size;
    if (left > pool->max_unsplit) {
        int32_t rest = make_block(heap, heap->blocks[index].address + size, left, number);
        if (rest == NONE)
            return NONE;
        link_blocks(heap, rest, heap->blocks[index].after);
        link_blocks(heap, index, rest);
        heap->blocks[index].size = size;
        if (replace(pool, place, &heap->blocks[rest], rest) < 0)
            return NONE;
    } else {
        pop(pool, place);
    }
    Block *block = &heap->blocks[index];
    block->is_free = 0;
    block->requested = size;
    heap->allocated += block->size;
    heap->requested += size;
    if (heap->allocated > heap->highest)
        heap->highest = heap->allocated;
    if (heap->requested > heap->highest_requested)
        heap->highest_requested = heap->requested;
    return index;
}

static void absorb(Heap *heap, int32_t index, int32_t following) {
    heap->blocks[index].size += heap->blocks[following].size;
    link_blocks(heap, index, heap->blocks[following].after);
    drop_block(heap, following);
}

/* Take a block back and merge it with its free neighbours. */
static int release(Heap *heap, int32_t index) {
    Block *block = &heap->blocks[index];
    Pool *pool = heap->pools[block->pool];
    int32_t before = block->before, after = block->after;
    int joins = before != NONE && heap->blocks[before].is_free;
    heap->allocated -= block->size;
    heap->requested -= block->requested;
    if (after != NONE && heap->blocks[after].is_free) {
        Place place = find_block(pool, &heap->blocks[after], after);
        absorb(heap, index, after);
        if (!joins)
            return replace(pool, place, block, index);
        pop(pool, place);
    }
    if (!joins)
        return insert(pool, block, index);
    Place place = find_block(pool, &heap->blocks[before], before);
    absorb(heap, before, index);
    return replace(pool, place, &heap->blocks[before], before);
}

#endif
