/* The caching allocator for replays: the rules of caching_allocator.py over arrays.

   A block is a number here. Python's form is what this is compared with, request by request, and
   runs where this was not compiled. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <structmember.h>

#include "requests.h"

#define BLOCK_BYTES 512
#define EVENTS_PER_CHECK 2048

static int heap_init(Heap *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"is_expandable", "is_cuda", "limit", "full_error", NULL};
    PyObject *full_error = Py_None;
    long long limit = INT64_MAX;
    if (self->num_pools) {
        PyErr_SetString(PyExc_RuntimeError, "a heap starts once");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "pp|LO", names, &self->is_expandable,
                                     &self->addresses.is_cuda, &limit, &full_error))
        return -1;
    self->spare = NONE;
    self->limit = limit;
    self->addresses.lowest = HIGHEST;
    self->full_error = full_error == Py_None ? NULL : Py_NewRef(full_error);
    return add_pool(self) < 0 || add_pool(self) < 0 ? -1 : 0;
}

static void heap_dealloc(Heap *self) {
    PyTypeObject *type = Py_TYPE(self);
    for (Py_ssize_t number = 0; number < self->num_pools; number++) {
        for (int32_t bin = 0; bin < NUM_BINS; bin++)
            PyMem_Free(self->pools[number]->bins[bin].keys);
        PyMem_Free(self->pools[number]);
    }
    PyMem_Free(self->pools);
    PyMem_Free(self->blocks);
    PyMem_Free(self->addresses.gaps.keys);
    Py_XDECREF(self->full_error);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* The index of a block in use, or -1 with an error. */
static int32_t read_block(const Heap *self, PyObject *number) {
    Py_ssize_t index = PyLong_AsSsize_t(number);
    if (index == -1 && PyErr_Occurred())
        return NONE;
    if (index < 0 || index >= self->count || self->blocks[index].is_free) {
        PyErr_SetString(PyExc_ValueError, "a block is freed that is not in use");
        return NONE;
    }
    return (int32_t)index;
}

static int free_number(Heap *self, PyObject *number) {
    int32_t index = read_block(self, number);
    return index == NONE ? -1 : release(self, index);
}

static PyObject *heap_allocate(Heap *self, PyObject *args) {
    long long size, stream = 0;
    if (!PyArg_ParseTuple(args, "L|L", &size, &stream))
        return NULL;
    int32_t index = allocate(self, size, stream);
    return index == NONE ? NULL : PyLong_FromLong(index);
}

static PyObject *heap_reset_peak(Heap *self, PyObject *Py_UNUSED(ignored)) {
    self->highest = self->allocated;
    Py_RETURN_NONE;
}

static PyObject *heap_free(Heap *self, PyObject *number) {
    if (free_number(self, number) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *heap_free_all(Heap *self, PyObject *blocks) {
    PyObject *iterator = PyObject_GetIter(blocks), *number;
    if (iterator == NULL)
        return NULL;
    while ((number = PyIter_Next(iterator)) != NULL) {
        int failed = free_number(self, number) < 0;
        Py_DECREF(number);
        if (failed)
            break;
    }
    Py_DECREF(iterator);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static int append_allocated(Heap *self, PyObject *blocks, PyObject *item) {
    long long num_bytes = PyLong_AsLongLong(item);
    if (num_bytes == 0 || (num_bytes == -1 && PyErr_Occurred()))
        return num_bytes == 0 ? 0 : -1;
    int32_t index = allocate(self, num_bytes < 0 ? 0 : (num_bytes - 1) / BLOCK_BYTES + 1, 0);
    PyObject *number = index == NONE ? NULL : PyLong_FromLong(index);
    int failed = number == NULL || PyList_Append(blocks, number) < 0;
    Py_XDECREF(number);
    return failed ? -1 : 0;
}

static PyObject *heap_allocate_all(Heap *self, PyObject *sizes) {
    PyObject *iterator = PyObject_GetIter(sizes), *blocks = PyList_New(0), *item;
    while (iterator != NULL && blocks != NULL && (item = PyIter_Next(iterator)) != NULL) {
        int failed = append_allocated(self, blocks, item) < 0;
        Py_DECREF(item);
        if (failed)
            break;
    }
    Py_XDECREF(iterator);
    if (PyErr_Occurred())
        Py_CLEAR(blocks);
    return blocks;
}

static int check_caller(PyObject *check) {
    PyObject *result = check == Py_None ? Py_NewRef(Py_None) : PyObject_CallNoArgs(check);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

/* Allocate or free what one event says; live[i] is the block of event i. */
static int run_event(
    Heap *self, PyObject *item, PyObject *sizes, PyObject *streams, int32_t *live, Py_ssize_t count
) {
    Py_ssize_t event = PyLong_AsSsize_t(item), place = event < 0 ? ~event : event;
    if (event == -1 && PyErr_Occurred())
        return -1;
    if (place >= count || PyList_GET_SIZE(sizes) != count) {
        PyErr_SetString(PyExc_IndexError, "an event has no size");
        return -1;
    }
    int32_t index = live[place];
    if (event < 0) {
        live[place] = NONE;
        return index == NONE ? 0 : release(self, index);
    }
    long long size = PyLong_AsLongLong(PyList_GET_ITEM(sizes, place));
    if (size == 0 || (size == -1 && PyErr_Occurred()))
        return size == 0 ? 0 : -1;
    long stream = streams == Py_None ? 0 : PyLong_AsLong(PyList_GET_ITEM(streams, place));
    if (stream == -1 && PyErr_Occurred())
        return -1;
    live[place] = allocate(self, size, stream);
    return live[place] == NONE ? -1 : 0;
}

static PyObject *collect_live(const int32_t *live, Py_ssize_t count) {
    PyObject *blocks = PyDict_New();
    for (Py_ssize_t event = 0; event < count && blocks != NULL; event++) {
        if (live[event] == NONE)
            continue;
        PyObject *key = PyLong_FromSsize_t(event), *number = PyLong_FromLong(live[event]);
        if (key == NULL || number == NULL || PyDict_SetItem(blocks, key, number) < 0)
            Py_CLEAR(blocks);
        Py_XDECREF(key);
        Py_XDECREF(number);
    }
    return blocks;
}

static PyObject *heap_run(Heap *self, PyObject *args) {
    PyObject *order, *sizes, *check = Py_None, *streams = Py_None, *blocks = NULL;
    if (!PyArg_ParseTuple(args, "O!O!|OO", &PyTuple_Type, &order, &PyList_Type, &sizes, &check,
                          &streams))
        return NULL;
    Py_ssize_t count = PyList_GET_SIZE(sizes), num_events = PyTuple_GET_SIZE(order);
    if (streams != Py_None && (!PyList_Check(streams) || PyList_GET_SIZE(streams) < count)) {
        PyErr_SetString(PyExc_TypeError, "streams are a list, one for each size");
        return NULL;
    }
    int32_t *live = PyMem_Malloc((count + 1) * sizeof(int32_t));
    if (live == NULL)
        return PyErr_NoMemory();
    memset(live, 0xff, count * sizeof(int32_t));
    Py_ssize_t place = 0;
    for (; place < num_events; place++) {
        if (place % EVENTS_PER_CHECK == 0 && check_caller(check) < 0)
            break;
        if (run_event(self, PyTuple_GET_ITEM(order, place), sizes, streams, live, count) < 0)
            break;
    }
    if (place == num_events)
        blocks = collect_live(live, count);
    PyMem_Free(live);
    return blocks;
}

static PyObject *heap_list_free(Heap *self, PyObject *Py_UNUSED(ignored)) {
    PyObject *blocks = PyList_New(0);
    for (Py_ssize_t number = 0; number < self->num_pools; number++) {
        const Pool *pool = self->pools[number];
        Place place = find_filled(pool, 0);
        for (; place.bin < NUM_BINS && blocks != NULL; place = find_following(pool, place)) {
            const Block *block = &self->blocks[get_block(pool, place)];
            PyObject *item = Py_BuildValue("nLL", number, block->address, block->size);
            if (item == NULL || PyList_Append(blocks, item) < 0)
                Py_CLEAR(blocks);
            Py_XDECREF(item);
        }
    }
    return blocks;
}

static PyMethodDef heap_methods[] = {
    {"allocate", (PyCFunction)heap_allocate, METH_VARARGS, "Return the smallest free block."},
    {"allocate_all", (PyCFunction)heap_allocate_all, METH_O, "Return a block for each size."},
    {"free", (PyCFunction)heap_free, METH_O, "Take a block back."},
    {"free_all", (PyCFunction)heap_free_all, METH_O, "Take blocks back in their order."},
    {"list_free", (PyCFunction)heap_list_free, METH_NOARGS, "Return pool, address and size."},
    {"reset_peak", (PyCFunction)heap_reset_peak, METH_NOARGS, "Count peaks from here on."},
    {"run", (PyCFunction)heap_run, METH_VARARGS, "Allocate and free in the order of events."},
    {NULL},
};

static PyMemberDef heap_members[] = {
    {"reserved", T_LONGLONG, offsetof(Heap, reserved), READONLY, NULL},
    {"allocated", T_LONGLONG, offsetof(Heap, allocated), READONLY, NULL},
    {"highest", T_LONGLONG, offsetof(Heap, highest), READONLY, NULL},
    {"requested", T_LONGLONG, offsetof(Heap, requested), READONLY, NULL},
    {"highest_requested", T_LONGLONG, offsetof(Heap, highest_requested), READONLY, NULL},
    {NULL},
};

static PyType_Slot heap_slots[] = {
    {Py_tp_doc, "Blocks of 512 bytes in segments, each block by its number."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, heap_init},
    {Py_tp_dealloc, heap_dealloc},
    {Py_tp_methods, heap_methods},
    {Py_tp_members, heap_members},
    {0},
};

static PyType_Spec heap_spec = {
    .name = "native_heap.NativeHeap",
    .basicsize = sizeof(Heap),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = heap_slots,
};

static int execute(PyObject *module) {
    PyObject *type = PyType_FromSpec(&heap_spec);
    int failed = type == NULL || PyModule_AddObjectRef(module, "NativeHeap", type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, execute}, {0}};

static PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "native_heap",
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit_native_heap(void) { return PyModuleDef_Init(&module); }
