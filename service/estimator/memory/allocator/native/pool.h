/* Blocks of a heap, and the free ones of a pool by size and address.

   A free block is a packed key in the sorted array of its bin. A bin has the sizes that share their
   highest bit and the three bits below it, so that bins are few, short, and in order themselves. */

#ifndef HEADROOM_POOL_H
#define HEADROOM_POOL_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

typedef unsigned __int128 Key; /* size, biased address and index, from the highest bit down */

#define INDEX_BITS 28
#define ADDRESS_BITS 56
#define SIZE_BITS 44
#define BIAS ((int64_t)1 << (ADDRESS_BITS - 1))
#define MAX_SIZE ((int64_t)1 << SIZE_BITS) /* 2^53 bytes, which no answer goes beyond */
#define MAX_ADDRESS (BIAS / 2)
#define NUM_BINS (8 * (SIZE_BITS - 2))
#define NUM_WORDS ((NUM_BINS + 63) / 64)
#define NONE (-1)

typedef struct {
    int64_t address, size, requested;
    int32_t before, after, pool;
    int32_t is_free; /* or FREED where the block is out of use */
} Block;

#define FREED 2

typedef struct {
    Key *keys;
    int32_t count, capacity;
} Bin;

typedef struct {
    Bin bins[NUM_BINS];
    uint64_t filled[NUM_WORDS]; /* a bit for each bin that is not empty */
    int64_t max_unsplit;
    int32_t end; /* the block that ends a segment which can grow */
} Pool;

typedef struct {
    int32_t bin, index; /* the bin is NUM_BINS behind the last block */
} Place;

static int raise_beyond(void) {
    PyErr_SetString(PyExc_OverflowError, "a heap has less than 2^53 bytes, and addresses for them");
    return -1;
}

static Key make_key(const Block *block, int32_t index) {
    return (Key)(uint64_t)block->size << (ADDRESS_BITS + INDEX_BITS) |
           (Key)(uint64_t)(block->address + BIAS) << INDEX_BITS | (Key)(uint32_t)index;
}

static int32_t get_block(const Pool *pool, Place place) {
    return (int32_t)((uint64_t)pool->bins[place.bin].keys[place.index] & ((1u << INDEX_BITS) - 1));
}

static int32_t get_bin(int64_t size) {
    int highest = 63 - __builtin_clzll((uint64_t)size | 1);
    return highest < 3 ? (int32_t)size : (int32_t)(8 * (highest - 2) + ((size >> (highest - 3)) & 7));
}

/* The first index whose key is not below another, without a branch on what is compared. */
static int32_t search(const Key *keys, int32_t count, Key key) {
    int32_t low = 0;
    while (count > 1) {
        int32_t half = count / 2;
        low += half & -(int32_t)(keys[low + half - 1] < key);
        count -= half;
    }
    return low + (count == 1 && keys[low] < key);
}

/* Add a key at an index of a bin, which grows where it has to. */
static int add_key(Bin *bin, int32_t index, Key key) {
    if (bin->count == bin->capacity) {
        int32_t capacity = bin->capacity ? 2 * bin->capacity : 8;
        Key *grown = PyMem_Realloc(bin->keys, capacity * sizeof(Key));
        if (grown == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        bin->keys = grown;
        bin->capacity = capacity;
    }
    Key *keys = bin->keys + index;
    memmove(keys + 1, keys, (bin->count - index) * sizeof(Key));
    *keys = key;
    bin->count++;
    return 0;
}

static void remove_key(Bin *bin, int32_t index) {
    bin->count--;
    memmove(bin->keys + index, bin->keys + index + 1, (bin->count - index) * sizeof(Key));
}

/* The first block of a bin, or of the next one that is not empty. */
static Place find_filled(const Pool *pool, int32_t bin) {
    for (int32_t word = bin / 64; word < NUM_WORDS; word++) {
        uint64_t bits = pool->filled[word];
        if (word == bin / 64)
            bits &= ~(uint64_t)0 << (bin % 64);
        if (bits)
            return (Place){64 * word + __builtin_ctzll(bits), 0};
    }
    return (Place){NUM_BINS, 0};
}

static Place find_fitting(const Pool *pool, int64_t size) {
    int32_t bin = get_bin(size);
    const Bin *first = &pool->bins[bin];
    Key key = (Key)(uint64_t)size << (ADDRESS_BITS + INDEX_BITS);
    int32_t index = search(first->keys, first->count, key);
    return index < first->count ? (Place){bin, index} : find_filled(pool, bin + 1);
}

static Place find_following(const Pool *pool, Place place) {
    if (place.index + 1 < pool->bins[place.bin].count)
        return (Place){place.bin, place.index + 1};
    return find_filled(pool, place.bin + 1);
}

static Place find_block(const Pool *pool, const Block *block, int32_t index) {
    int32_t bin = get_bin(block->size);
    const Bin *holder = &pool->bins[bin];
    return (Place){bin, search(holder->keys, holder->count, make_key(block, index))};
}

static void pop(Pool *pool, Place place) {
    Bin *bin = &pool->bins[place.bin];
    remove_key(bin, place.index);
    if (bin->count == 0)
        pool->filled[place.bin / 64] &= ~((uint64_t)1 << (place.bin % 64));
}

static int insert(Pool *pool, Block *block, int32_t index) {
    Place place = find_block(pool, block, index);
    if (add_key(&pool->bins[place.bin], place.index, make_key(block, index)) < 0)
        return -1;
    pool->filled[place.bin / 64] |= (uint64_t)1 << (place.bin % 64);
    block->is_free = 1;
    return 0;
}

/* Put a block in place of another: it mostly has the same neighbours. */
static int replace(Pool *pool, Place place, Block *block, int32_t index) {
    Bin *bin = &pool->bins[place.bin];
    Key key = make_key(block, index), *keys = bin->keys + place.index;
    if (get_bin(block->size) == place.bin && (place.index == 0 || keys[-1] < key) &&
        (place.index + 1 == bin->count || key < keys[1])) {
        *keys = key;
        block->is_free = 1;
        return 0;
    }
    pop(pool, place);
    return insert(pool, block, index);
}

#endif
