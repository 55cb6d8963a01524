/* Addresses of segments: those of addresses.py. */

#ifndef HEADROOM_ADDRESSES_H
#define HEADROOM_ADDRESSES_H

#include "pool.h"

#define HIGHEST ((int64_t)1 << 36)
#define CHUNK 65536 /* 32 MiB */

typedef struct {
    int is_cuda; /* or each above the last one */
    int64_t next, lowest;
    Bin gaps; /* of size and address each */
} Addresses;

static int add_gap(Addresses *space, int64_t address, int64_t size) {
    Key key = (Key)(uint64_t)size << 64 | (uint64_t)(address + BIAS);
    return add_key(&space->gaps, search(space->gaps.keys, space->gaps.count, key), key);
}

/* Place a segment in the smallest gap that holds it, else below all others. */
static int take_address(Addresses *space, int64_t size, int64_t *address) {
    if (space->next > MAX_ADDRESS - size || space->lowest < size - MAX_ADDRESS)
        return raise_beyond();
    if (!space->is_cuda) {
        *address = space->next;
        space->next += size;
        return 0;
    }
    int32_t index = search(space->gaps.keys, space->gaps.count, (Key)(uint64_t)size << 64);
    int64_t gap_size;
    if (index < space->gaps.count) {
        Key gap = space->gaps.keys[index];
        gap_size = (int64_t)(gap >> 64);
        *address = (int64_t)(uint64_t)gap - BIAS;
        remove_key(&space->gaps, index);
    } else {
        gap_size = (size + CHUNK - 1) / CHUNK * CHUNK;
        space->lowest -= gap_size;
        *address = space->lowest;
    }
    return gap_size > size ? add_gap(space, *address + size, gap_size - size) : 0;
}

#endif
