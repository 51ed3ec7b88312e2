from __future__ import annotations

import pytest

from bench.engine.preflight import check_hardware, company_notes, device_variables, memory_share
from bench.errors import Exit, StreamproofError
from bench.observe.environment import Environment
from recipes.schema import Hardware
from tests.observe.machines import GIB, environment, gpu, host, process

H200 = Hardware(kind="gpu", gpu="H200", memory_gib=130)
TWO = Hardware(kind="gpu", gpu="H200", count=2, memory_gib=130)
CPU = Hardware(kind="cpu", memory_gib=8, cores=2)


def refusal(hardware: Hardware, found: Environment) -> StreamproofError:
    with pytest.raises(StreamproofError) as caught:
        check_hardware(hardware, found)
    assert caught.value.exit_code is Exit.FAILURE
    assert caught.value.remedy
    return caught.value


def test_the_first_fitting_gpus_are_chosen() -> None:
    found = environment(gpu(0, "NVIDIA L4"), gpu(1), gpu(2, "nvidia h200 nvl"), gpu(3))
    assert [chosen.index for chosen in check_hardware(H200, found)] == [1]
    assert [chosen.index for chosen in check_hardware(TWO, found)] == [1, 2]


def test_a_gpu_that_is_used_is_passed_over() -> None:
    found = environment(gpu(0, processes=(process(),)), gpu(1, memory_free_bytes=20 * GIB), gpu(2))
    assert [chosen.index for chosen in check_hardware(H200, found)] == [2]


def test_no_driver() -> None:
    error = refusal(H200, environment(driver=False))
    assert error.message == "this recipe needs 1 H200 GPU; this host has no NVIDIA driver"
    assert "just recipes" in error.remedy


def test_a_driver_and_no_gpu() -> None:
    assert refusal(H200, environment()).message.endswith("this host has no GPU")


def test_another_product() -> None:
    found = environment(gpu(0, "NVIDIA B200"), gpu(1, "NVIDIA B200"), gpu(2, "NVIDIA A100"))
    assert refusal(H200, found).message.endswith("this host has 1 x NVIDIA A100, 2 x NVIDIA B200")


@pytest.mark.parametrize("name", ["NVIDIA GH200 480GB", "NVIDIA H2000", "NVIDIA GB200"])
def test_a_product_whose_name_only_contains_it(name: str) -> None:
    assert refusal(H200, environment(gpu(0, name))).message.endswith(f"this host has 1 x {name}")


def test_too_few() -> None:
    message = refusal(TWO, environment(gpu())).message
    assert message == "this recipe needs 2 H200 GPUs; this host has 1 x NVIDIA H200"


def test_split_into_instances() -> None:
    error = refusal(H200, environment(gpu(mig=True)))
    assert error.message == "this recipe needs 1 H200 GPU as a whole; 1 are split into MIG instances"
    assert "-mig 0" in error.remedy


def test_held_by_a_server_that_was_killed() -> None:
    error = refusal(H200, environment(gpu(memory_free_bytes=15 * GIB, processes=(process(),))))
    assert error.message == (
        "this recipe needs 1 H200 GPU with 130 GiB free that nobody else uses; "
        "GPU 0 has 15.0 GiB free and is used by VLLM::EngineCore (pid 4242)"
    )


def test_too_little_memory_though_nobody_is_seen_to_use_it() -> None:
    assert refusal(H200, environment(gpu(memory_free_bytes=64 * GIB))).message.endswith("GPU 0 has 64.0 GiB free")


@pytest.mark.parametrize(("memory", "free"), [(100 << 20, True), (1 * GIB, False), (None, False)])
def test_a_monitor_may_hold_a_little(memory: int | None, free: bool) -> None:
    found = environment(gpu(processes=(process(name=None, memory=memory),)))
    if free:
        assert check_hardware(H200, found)
    else:
        assert "a process (pid 4242)" in refusal(H200, found).message


def test_a_named_share_may_be_had_beside_another_engine() -> None:
    resident = gpu(0, memory_free_bytes=76 * GIB, processes=(process(memory=63 * GIB),))
    assert check_hardware(H200, environment(resident), share=0.5) == (resident,)
    (note,) = company_notes((resident,))
    assert note == (
        "GPU 0 has 76.0 GiB free and is used by VLLM::EngineCore (pid 4242): "
        "their work on it is in every figure of this run"
    )
    assert list(company_notes((gpu(1),))) == []
    with pytest.raises(StreamproofError) as caught:
        check_hardware(H200, environment(resident), share=0.6)
    assert caught.value.message == (
        "this recipe needs 1 H200 GPU with 84.0 GiB free (gpu_memory_utilization = 0.6); "
        "GPU 0 has 76.0 GiB free and is used by VLLM::EngineCore (pid 4242)"
    )


def test_a_card_of_ones_own_is_taken_before_one_in_company() -> None:
    resident = gpu(0, memory_free_bytes=76 * GIB, processes=(process(memory=63 * GIB),))
    found = environment(resident, gpu(1))
    assert [chosen.index for chosen in check_hardware(H200, found, share=0.5)] == [1]
    assert [chosen.index for chosen in check_hardware(TWO, found, share=0.5)] == [1, 0]
    assert "--set engine.flags.gpu_memory_utilization" in refusal(TWO, found).remedy


@pytest.mark.parametrize(
    ("flags", "share"),
    [
        ({}, None),
        ({"gpu_memory_utilization": 0.45}, 0.45),
        ({"gpu_memory_utilization": 1}, 1.0),
        ({"gpu_memory_utilization": True}, None),
        ({"gpu_memory_utilization": 45}, None),
        ({"gpu_memory_utilization": "half"}, None),
    ],
)
def test_the_share_that_flags_name(flags: dict[str, object], share: float | None) -> None:
    assert memory_share(flags) == share


def test_a_driver_that_does_not_tell_the_free_memory_cannot_refuse() -> None:
    assert check_hardware(H200, environment(gpu(memory_free_bytes=None)))


def test_only_the_visible_gpus_count_in_their_order() -> None:
    three = (gpu(0), gpu(1), gpu(2))

    def visible(value: str) -> Environment:
        return environment(*three, variables={"CUDA_VISIBLE_DEVICES": value})

    assert [chosen.index for chosen in check_hardware(TWO, visible("2, 0"))] == [2, 0]
    assert [chosen.index for chosen in check_hardware(H200, visible("GPU-00000001"))] == [1]
    message = refusal(TWO, visible("1, 1, GPU-00000001")).message  # no card counts twice
    assert message == refusal(TWO, visible("1")).message == refusal(TWO, visible("1,-1,2")).message
    assert message.endswith("this host has 1 x NVIDIA H200, and 2 that CUDA_VISIBLE_DEVICES hides")
    assert refusal(H200, visible("")).message.endswith("this host has no GPU, and 3 that CUDA_VISIBLE_DEVICES hides")


def test_the_engine_is_shown_the_chosen_gpus_by_the_drivers_own_numbers() -> None:
    assert device_variables((gpu(2), gpu(0))) == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "2,0"}
    assert device_variables(()) == {}


def test_a_recipe_of_the_cpu_asks_for_no_gpu() -> None:
    assert check_hardware(CPU, environment(driver=False)) == ()


def test_too_few_cores() -> None:
    message = refusal(CPU, environment(on=host(usable_threads=1))).message
    assert message == "this recipe needs 2 CPU cores; 1 may be used here (A CPU)"
    assert "1.5 may be used" in refusal(CPU, environment(on=host(cpu_limit=1.5))).message
    assert check_hardware(Hardware(kind="cpu", memory_gib=8), environment(on=host(usable_threads=1))) == ()


def test_too_little_main_memory() -> None:
    message = refusal(CPU, environment(on=host(memory_available_bytes=5 * GIB))).message
    assert message == "this recipe needs 8 GiB of free memory; 5.0 of 64.0 GiB are free"
    limited = refusal(CPU, environment(on=host(memory_limit_bytes=4 * GIB)))
    assert "4.0 of 4.0 GiB are free" in limited.message
    assert "--memory" in limited.remedy
