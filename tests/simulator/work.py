"""Work for the machine to do while it is recorded."""

from __future__ import annotations

from npuprof.simulator import Event, Simulator, Tensor

HALF = Tensor((1024, 1024), "float16")


def matmul(machine: Simulator, count: int = 1) -> None:
    for _ in range(count):
        machine.device(0).launch(
            "MatMulV3", core="AI_CORE", inputs=(HALF, HALF), outputs=(HALF,), flops=2 * 1024**3, api="aclnnMatmul"
        )


def everything(machine: Simulator) -> None:
    device = machine.device(0)
    other, event = device.create_stream(), Event()
    matmul(machine)
    device.launch("FlashAttentionScore", core="MIX_AIC", inputs=(HALF,) * 6, outputs=(HALF,), flops=10**9)
    device.copy("host_to_device", 100 << 20)
    device.record_event(event)
    device.wait_event(event, other)
    device.release(device.allocate(1 << 20))
    stamp = machine.marker.create_stamp()
    machine.marker.set_message(stamp, "train")
    machine.marker.mark(stamp)
    step = machine.marker.create_step_info()
    machine.marker.step(step, 0, device, other)
    machine.clock.sleep_until_ns(machine.clock.monotonic_raw_ns() + 100_000_000)
