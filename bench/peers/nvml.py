# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Clock, power and the reasons that hold the clock down, read from the driver's library (libnvidia-ml) while a sample runs."""
import ctypes
import threading
import time

_SM_CLOCK = 1              # NVML_CLOCK_SM
_POWER_INSTANT = 186       # NVML_FI_DEV_POWER_INSTANT; nvmlDeviceGetPowerUsage is a mean over a second, longer than a sample
_REASONS = {0x1: "idle", 0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown", 0x10: "sync boost", 0x20: "thermal",
            0x40: "hardware thermal", 0x80: "power brake", 0x100: "display clocks"}


class _FieldValue(ctypes.Structure):
    _fields_ = [("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("timestamp", ctypes.c_longlong), ("latency", ctypes.c_longlong),
                ("type", ctypes.c_int), ("status", ctypes.c_int), ("value", ctypes.c_ulonglong)]


class Nvml:
    """`absent` says why there is nothing to read."""

    def __init__(self, index=0):
        self.absent, self.handle = None, ctypes.c_void_p()
        try:
            self.c = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            self.absent = str(error)
            return
        if self.c.nvmlInit_v2() or self.c.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(self.handle)):
            self.absent = "NVML does not open the device"

    def text(self, call):
        buffer = ctypes.create_string_buffer(96)
        return buffer.value.decode() if not self.absent and call(buffer, ctypes.c_uint(96)) == 0 else None

    def describe(self):
        if self.absent:
            return {"absent": self.absent}
        limit = ctypes.c_uint()
        self.c.nvmlDeviceGetEnforcedPowerLimit(self.handle, ctypes.byref(limit))
        return {"name": self.text(lambda b, n: self.c.nvmlDeviceGetName(self.handle, b, n)),
                "driver": self.text(lambda b, n: self.c.nvmlSystemGetDriverVersion(b, n)), "power_limit_w": limit.value / 1000}

    def read(self):
        """(MHz, W, reasons as bits)"""
        clock, power, reasons = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_ulonglong()
        self.c.nvmlDeviceGetClockInfo(self.handle, ctypes.c_int(_SM_CLOCK), ctypes.byref(clock))
        field = _FieldValue(field=_POWER_INSTANT)
        if self.c.nvmlDeviceGetFieldValues(self.handle, ctypes.c_int(1), ctypes.byref(field)) == 0 and field.status == 0:
            power.value = field.value & 0xFFFFFFFF
        else:
            self.c.nvmlDeviceGetPowerUsage(self.handle, ctypes.byref(power))
        self.c.nvmlDeviceGetCurrentClocksThrottleReasons(self.handle, ctypes.byref(reasons))
        return clock.value, power.value / 1000, reasons.value


class Sampler:
    """with Sampler(nvml) as s: …; s.summary() has the mean clock and power of the second half, which is the timed one."""

    def __init__(self, nvml, period=0.02):
        self.nvml, self.period, self.readings = nvml, period, []
        self.stop = threading.Event()

    def _loop(self):
        while not self.stop.wait(self.period):
            self.readings.append(self.nvml.read())

    def __enter__(self):
        if not self.nvml.absent:
            self.thread = threading.Thread(target=self._loop, daemon=True)
            self.thread.start()
        self.begin = time.monotonic()
        return self

    def __exit__(self, *_):
        self.stop.set()
        if not self.nvml.absent:
            self.thread.join()

    def summary(self):
        if not self.readings:
            return {}
        half = self.readings[len(self.readings) // 2:]
        bits = 0
        for _, _, reasons in half:
            bits |= reasons
        return {"mhz": round(sum(r[0] for r in half) / len(half)), "watt": round(sum(r[1] for r in half) / len(half)),
                "held_by": [name for bit, name in _REASONS.items() if bits & bit & ~1]}
