"""Sets the key SMALL and gets LARGE, then SMALL, by the client library; prints the two codes of the gets.

usage: kv_large_get.py LIBRARY SOCKET LARGE SMALL
"""
import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])
client = ctypes.c_void_p()
why = ctypes.create_string_buffer(256)
if library.pulse_kv_open(sys.argv[2].encode(), 10000, ctypes.byref(client), why, ctypes.c_size_t(256)) != 0:
    sys.exit(why.value.decode())
value = ctypes.create_string_buffer(16 << 20)
codes = []
large, small = (name.encode() for name in sys.argv[3:5])
set_code = library.pulse_kv_set(client, small, ctypes.c_size_t(len(small)), b"v", ctypes.c_size_t(1), ctypes.c_uint64(0))
if set_code != 0:
    sys.exit(f"set: {set_code}")
for key in (large, small):
    size = ctypes.c_size_t()
    codes.append(library.pulse_kv_get(client, key, ctypes.c_size_t(len(key)), value, ctypes.c_size_t(len(value)),
                                      ctypes.byref(size)))
print(*codes)
library.pulse_kv_close(client)
