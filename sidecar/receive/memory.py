"""The C allocator's manners with buffers of a request's size.

Rules
1. A buffer of up to 4 MiB comes from memory that the process has, and goes back to it: by default
   each is mapped anew, and the kernel clears its pages one fault at a time.
2. At most 64 MiB of it is kept while it is free.

Source: mallopt(3) of the GNU C library; another allocator is left as it is.
"""

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_BUFFER_BYTES, _KEPT_BYTES = 4 * 1024**2, 64 * 1024**2


def keep_buffers() -> None:
    """Set this process's allocator up. Safe at any time and more than once."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_THRESHOLD, _BUFFER_BYTES)
    mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
