"""A serving process's manners with memory: buffers of a request's size, and Python's objects.

Rules
1. A buffer of up to 4 MiB comes from memory that the process has, and goes back to it: by default
   each is mapped anew, and the kernel clears its pages one fault at a time.
2. At most 64 MiB of it is kept while it is free.
3. What is there once everything listens stays to the end: the collector does not look at it again,
   and looks for rings among the rest more rarely than it would by default: a call that is on its
   way has hundreds of objects, and next to none of them is in a ring.

Source: mallopt(3) of the GNU C library; another allocator is left as it is.
"""

import ctypes
import gc

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_OBJECTS = 10_000
_BUFFER_BYTES, _KEPT_BYTES = 4 * 1024**2, 64 * 1024**2


def keep_buffers() -> None:
    """Set this process's allocator up. Safe at any time and more than once."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, _BUFFER_BYTES)
    mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def keep_objects() -> None:
    """Set the collector up, once everything listens."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS)
