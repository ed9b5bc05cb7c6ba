# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501
"""Small files from every tool whose profiles or results are read."""

from __future__ import annotations

import sqlite3
from pathlib import Path

NS = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
INSERT INTO StringIds VALUES (1, 'add'), (2, 'mul'), (3, 'launch'), (4, 'step');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
  streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER,
  gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,
  correlationId INTEGER, nameId INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
  globalTid INTEGER, textId INTEGER);
CREATE TABLE ANALYSIS_DETAILS (startTime INTEGER, stopTime INTEGER, duration INTEGER);
INSERT INTO ANALYSIS_DETAILS VALUES (0, 1000, 1000);
"""
PID = 7 << 24


def nsight(path: Path, kernels: list[tuple[int, ...]]) -> Path:
    database = sqlite3.connect(path)
    database.executescript(NS)
    for i, (start, end, device, stream, name, pid) in enumerate(kernels):
        database.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,?,?,?,?,?,4,1,1,32,1,1)",
            (start, end, device, stream, i, pid, name),
        )
        database.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,?,?,3)",
            (start - 20, start - 10, pid | 1, i),
        )
    database.commit()
    database.close()
    return path


def event(cat: str, name: str, ts: float, dur: float, **args: object) -> dict[str, object]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 2,
            "args": args}  # fmt: skip


EVENTS = [
    event("cpu_op", "aten::outer", 10, 200),
    event("cpu_op", "aten::mm", 12, 10),
    event("cuda_runtime", "cudaLaunchKernel", 15, 2, correlation=5),
    event("kernel", "gemm", 30.5, 10.25, correlation=5, device=1, stream=7, grid=[2, 3, 1],
          block=[64, 1, 1]),
    event("kernel", "early", 20, 4, correlation=99, device=1, stream=7),
    {"ph": "i", "cat": "mark", "name": "no duration", "ts": 1},
]  # fmt: skip

RAW = """program output, with commas
==PROF== Connected to process 1
"ID","Process ID","Kernel Name","Context","Stream","Block Size","Grid Size","Device","gpu__time_duration.sum","smsp__inst_executed.sum","dram__bytes.sum"
"","","","","","","","","usecond","inst","Mbyte"
"0","1","add(int *)","1","7","(128, 1, 1)","(10, 1, 1)","0","5.5","1,024","2"
"1","1","mul","1","7","(64, 2, 1)","(3, 1, 1)","0","1,000.25","512","1"
"""

DETAILS = """"ID","Process ID","Kernel Name","Context","Stream","Block Size","Grid Size","Section Name","Metric Name","Metric Unit","Metric Value"
"0","1","add","1","7","(128, 1, 1)","(10, 1, 1)","GPU Speed Of Light","Duration","us","5.5"
"0","1","add","1","7","(128, 1, 1)","(10, 1, 1)","Memory","L1/TEX Hit Rate","%","40"
"1","1","mul","1","7","(64, 2, 1)","(3, 1, 1)","GPU Speed Of Light","Duration","ms","1.5"
"1","1","mul","1","7","(64, 2, 1)","(3, 1, 1)","Memory","L1/TEX Hit Rate","%","50"
"""

NVPROF = """==123== NVPROF is profiling process 123
==123== Profiling result:
"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Device","Stream","Name","inst_executed"
ms,us,,,,,,,,,,
1.0,3.5,,,,,,,"GPU",7,"[CUDA memcpy HtoD]",
2.0,10.0,4,1,1,32,1,1,"GPU",7,"add(int) [94]",100
3.0,20.5,8,1,1,32,1,1,"GPU",7,"add(int) [105]",200
"""

CPU = """# Slice ending at kernel: void k<int, 2>(x) call: 1
T:1:100 :2:50
# Slice ending at kernel: b call: 1

# Slice ending at kernel: SYS_exit call: 1
T:1:7
"""
GPU = """M: SYS_init 1
# Slice ending at kernel: void k<int, 2>(x) call: 1
tid0: T:1:4 :2:4
tid1: T:1:4
M: void k<int, 2>(x) 1
# Slice ending at kernel: b call: 1
tid0: T:1:9
M: b 1
"""
TIMER = """GPU_Init : TSC 100
0 OnRun void k TSC 150
0 OnComplete void k<int, 2>(x) TSC 200
1 OnComplete b TSC 450
GPU_Fini : TSC 500
"""


def reference(folder: Path) -> Path:
    folder.mkdir()
    (folder / "T.0.bb").write_text(CPU)
    (folder / "T.1.bb").write_text(CPU.replace("T:1:7", "T:3:1"))
    (folder / "thread.bbv").write_text(GPU)
    (folder / "timer.txt").write_text(TIMER)
    return folder


def gem5_dump(cycles: int, instructions: int, rate: str) -> str:
    return f"""
---------- Begin Simulation Statistics ----------
simSeconds                                   0.000057                       # Number of seconds
hostSeconds                                      0.03                       # Real time
simInsts                                     {instructions}                 # Number of instructions
system.cpu.numCycles                         {cycles}                       # Number of cycles
system.cpu.ipc                               {instructions / cycles}        # IPC
system.l2.overallMissRate::total             {rate}                         # miss rate
system.cpu.hist::underflows                         0      0.00%      0.00% # bad
system.cpu.power_state.pwrStateResidencyTicks::UNDEFINED     57467000       # residency

---------- End Simulation Statistics   ----------
"""


ACCELSIM = """Accel-Sim [build abc]
Processing kernel /t/kernel-{first}.traceg
Header info loaded for kernel command : /t/kernel-{first}.traceg
launching kernel name: {name} uid: 1
Processing kernel /t/kernel-2.traceg
Header info loaded for kernel command : /t/kernel-2.traceg
kernel_name = {name}
kernel_launch_uid = 1
gpu_sim_cycle = 1000
gpu_sim_insn = 4000
gpu_ipc =       4.0
gpu_tot_sim_cycle = 1000
gpgpu_n_mem_read_global = 70
\tL2_cache_stats_breakdown[GLOBAL_ACC_R][HIT] = 30
launching kernel name: b uid: 2
kernel_name = b
kernel_launch_uid = 2
gpu_sim_cycle = 500
gpu_sim_insn = 500
gpu_ipc =       1.0
gpu_tot_sim_cycle = 1500
gpgpu_n_mem_read_global = 100
\tL2_cache_stats_breakdown[GLOBAL_ACC_R][HIT] = 90
GPGPU-Sim: *** exit detected ***
"""


# Columns and values as rocprofiler-sdk's documentation shows them (MIT licence), shortened.
ROCPROF = """"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp","Private_Segment_Size","Group_Segment_Size","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"
"KERNEL_DISPATCH",2,1,1,21228,1,11,"void addition_kernel<float>(float*, float const*, float const*, int, int)",1937,2414192765353337,2414192765369494,0,0,64,1,1,1024,1024,1
"KERNEL_DISPATCH",2,2,2,21228,3,13,"multiply_kernel(float*, float const*, float const*, int, int)",1953,2414192765487486,2414192765497669,0,0,64,1,1,1024,1024,1
"KERNEL_DISPATCH",2,1,1,21228,2,14,"subtract_kernel(float*, float const*, float const*, int, int)",1945,2414192765424862,2414192765435326,0,0,64,1,1,1024,1024,1
"""
COUNTERS = """"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id","Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"
1,1,"Agent 1",1,15606,15606,1048576,17,"a",64,0,0,8,0,16,"SQ_WAVES",16384.000000,3200098838431081,3200098838483232
2,2,"Agent 1",1,15606,15606,1048576,20,"b",64,0,0,8,0,16,"SQ_WAVES",16385.000000,3200098838589014,3200098838638794
1,1,"Agent 1",1,15606,15606,1048576,17,"a",64,0,0,8,0,16,"SQ_INSTS_VALU",7.000000,3200098838431081,3200098838483232
2,2,"Agent 1",1,15606,15606,1048576,20,"b",64,0,0,8,0,16,"SQ_INSTS_VALU",9.000000,3200098838589014,3200098838638794
"""

_ROCPD = """
CREATE TABLE "rocpd_info_kernel_symbol_00ab" (id INTEGER PRIMARY KEY, display_name TEXT);
INSERT INTO rocpd_info_kernel_symbol_00ab VALUES (11, 'add'), (13, 'mul');
"""
_SIZE = ", ".join(f"{what}_size_{axis} INTEGER" for what in ("workgroup", "grid") for axis in "xyz")


def rocpd(path: Path, separate: bool) -> Path:
    """Three launches in the schema of rocprofiler-sdk's rocpd_tables.sql: times beside the launch,
    or `separate`, in a table of their own."""
    database = sqlite3.connect(path)
    database.executescript(_ROCPD)
    launches = [(13, 1500, 1800), (11, 1000, 1400), (11, 2000, 2100)]
    if separate:
        database.executescript(
            f"CREATE TABLE rocpd_kernel_dispatch_00ab (id INTEGER PRIMARY KEY, track_id INTEGER, "
            f"kernel_id INTEGER, start_id INTEGER, end_id INTEGER, {_SIZE});"
            "CREATE TABLE rocpd_timestamp_00ab (id INTEGER PRIMARY KEY, value BIGINT);"
            "CREATE TABLE rocpd_track_00ab (id INTEGER PRIMARY KEY, agent_id INTEGER, "
            "stream_id INTEGER); INSERT INTO rocpd_track_00ab VALUES (1, 2, 3);"
        )
    else:
        database.executescript(
            f"CREATE TABLE rocpd_kernel_dispatch_00ab (id INTEGER PRIMARY KEY, agent_id INTEGER, "
            f'kernel_id INTEGER, stream_id INTEGER, "start" BIGINT, "end" BIGINT, {_SIZE});'
        )
    for number, (kernel, start, end) in enumerate(launches):
        if separate:
            for at, value in enumerate((start, end)):
                database.execute(
                    "INSERT INTO rocpd_timestamp_00ab VALUES (?, ?)", (2 * number + at, value)
                )
            row = (number, 1, kernel, 2 * number, 2 * number + 1)
        else:
            row = (number, 2, kernel, 3, start, end)  # type: ignore[assignment]
        marks = ",".join("?" * (len(row) + 6))
        database.execute(
            f"INSERT INTO rocpd_kernel_dispatch_00ab VALUES ({marks})", (*row, 64, 1, 1, 128, 2, 1)
        )
    database.commit()
    database.close()
    return path


def counted_rocpd(path: Path, kernels: list[str]) -> Path:
    """Two counters of a launch of each kernel, in the schema of rocprofiler-sdk's rocpd_tables.sql;
    the second counter has two instances."""
    database = sqlite3.connect(path)
    database.executescript(
        "CREATE TABLE rocpd_info_kernel_symbol_1 (id INTEGER PRIMARY KEY, display_name TEXT);"
        "CREATE TABLE rocpd_kernel_dispatch_1 (id INTEGER PRIMARY KEY, agent_id INTEGER, "
        f'kernel_id INTEGER, stream_id INTEGER, "start" BIGINT, "end" BIGINT, {_SIZE}, '
        "event_id INTEGER);"
        "CREATE TABLE rocpd_info_pmc_1 (id INTEGER PRIMARY KEY, name TEXT);"
        "INSERT INTO rocpd_info_pmc_1 VALUES (1, 'SQ_WAVES'), (2, 'TCC_HIT');"
        "CREATE TABLE rocpd_pmc_event_1 (id INTEGER PRIMARY KEY, event_id INTEGER, pmc_id INTEGER, "
        "value REAL);"
    )
    for number, kernel in enumerate(kernels, start=1):
        database.execute("INSERT INTO rocpd_info_kernel_symbol_1 VALUES (?, ?)", (number, kernel))
        row = (
            number,
            2,
            number,
            3,
            1000 * number,
            1000 * number + 400,
            64,
            1,
            1,
            128,
            2,
            1,
            number,
        )
        database.execute(f"INSERT INTO rocpd_kernel_dispatch_1 VALUES ({'?,' * 12}?)", row)
        for counter, value in ((1, 10 * number), (2, number), (2, 5)):
            database.execute(
                "INSERT INTO rocpd_pmc_event_1 (event_id, pmc_id, value) VALUES (?, ?, ?)",
                (number, counter, value),
            )
    database.commit()
    database.close()
    return path


def mgpusim(path: Path) -> Path:
    """Tasks as MGPUSim traces them, two of them launches."""
    database = sqlite3.connect(path)
    database.executescript(
        "CREATE TABLE mgpusim_metrics (Location TEXT, What TEXT, Value REAL, Unit TEXT);"
        "CREATE TABLE trace (ID TEXT, ParentID TEXT, Kind TEXT, What TEXT, Location TEXT, "
        "StartTime REAL, EndTime REAL);"
        "INSERT INTO trace VALUES ('1', '', 'Driver Command', '*driver.LaunchKernelCommand', "
        "'Driver', 1e-6, 3e-6), ('2', '', 'Driver Command', '*driver.MemCopyH2DCommand', 'Driver', "
        "0, 1e-6), ('3', '', 'Driver Command', '*driver.LaunchKernelCommand', 'Driver', 5e-6, 6e-6);"
    )
    database.commit()
    database.close()
    return path


GPGPUSIM = "".join(
    f"""GPGPU-Sim PTX: pushing kernel '{name}' to stream 0, gridDim= ({grid},1,1) blockDim = (64,1,1)
GPGPU-Sim uArch: Shader 0 bind to kernel {uid} '{name}'
kernel_name = {name}
kernel_launch_uid = {uid}
gpu_sim_cycle = {cycles}
gpu_sim_insn = 4000
gpu_ipc =       4.0
gpgpu_n_mem_read_global = {70 * uid}
"""
    for uid, (name, grid, cycles) in enumerate([("_Z3addPf", 8, 1000), ("_Z3mulPf", 4, 500)], 1)
)


def varint(value: int) -> bytes:
    return (bytes([value & 127 | 128]) + varint(value >> 7)) if value > 127 else bytes([value])


def proto(field: int, value: int | bytes) -> bytes:
    """A field of a protobuf message."""
    if isinstance(value, int):
        return varint(field << 3) + varint(value)
    return varint(field << 3 | 2) + varint(len(value)) + value


def chakra_node(name: str, start: int, duration: int, cpu: bool) -> bytes:
    attribute = proto(1, b"is_cpu_op") + proto(27, int(cpu))
    return (
        proto(2, name.encode()) + proto(3, 4) + proto(4, b"\x01")
        + proto(6, start) + proto(7, duration) + proto(10, attribute)
    )  # fmt: skip


CHAKRA = b"".join(
    varint(len(message)) + message
    for message in (
        proto(1, b"0.0.4"),
        chakra_node("aten::mm", 1000, 300, True),
        chakra_node("gemm", 1100, 150, False),
        chakra_node("gemm", 1400, 140, False),
    )
)
