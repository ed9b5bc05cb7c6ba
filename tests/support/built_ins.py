# SPDX-License-Identifier: Apache-2.0
"""Calls of each built-in function of OpenCL C 1.2 and 2.0, by type. Run as a program, it says of
those that the device accepts from source whether they compute the same when instrumented."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from tests.support.clinst import FIRST, HEADER, Device, Instrumented, instrument

ITEMS, LOCAL, CALLS = 128, 32, 20
UNARY = """
acos acosh acospi asin asinh asinpi atan atanh atanpi cbrt ceil cos cosh cospi erfc erf
exp exp2 exp10 expm1 fabs floor lgamma log log2 log10 log1p logb rint round rsqrt sin sinh
sinpi sqrt tan tanh tanpi tgamma trunc half_cos half_exp half_exp2 half_exp10 half_log
half_log2 half_log10 half_recip half_rsqrt half_sin half_sqrt half_tan native_cos
native_exp native_exp2 native_exp10 native_log native_log2 native_log10 native_recip
native_rsqrt native_sin native_sqrt native_tan degrees radians sign normalize
fast_normalize
"""
BINARY = """
atan2 atan2pi copysign fdim fmax fmin fmod hypot maxmag minmag nextafter pow powr
remainder half_divide half_powr native_divide native_powr min max step
"""
TERNARY = "fma mad clamp mix smoothstep bitselect"
POINTER = "fract modf sincos"
INT_POINTER = "frexp lgamma_r"
WITH_INT = "ldexp pown rootn"
REAL_TO_INT = "ilogb isfinite isinf isnan isnormal signbit"
RELATIONAL = """
isequal isnotequal isgreater isgreaterequal isless islessequal islessgreater isordered
isunordered
"""
TO_SCALAR = "length fast_length"
TO_SCALAR_2 = "dot distance fast_distance"
INTEGER = "abs clz ctz popcount"
INTEGER_2 = "abs_diff add_sat hadd rhadd max min mul_hi rotate sub_sat mul24"
INTEGER_3 = "clamp mad_hi mad_sat mad24 bitselect select"
ATOMIC = "add sub xchg min max and or xor"
QUERY = """
get_global_size get_global_id get_local_size get_local_id get_num_groups get_group_id
get_global_offset get_enqueued_local_size
"""
QUERY_0 = "get_work_dim get_global_linear_id get_local_linear_id"
SIZES = (2, 3, 4, 8, 16)


def _reals() -> dict[str, str]:
    bodies = {}
    for base, n in (("float", ""), ("float", "4"), ("double", "2")):
        kind = base + n
        x, y, z = (f"({kind})(v[{i}])" for i in range(3))
        ints = f"int{n}"
        calls = {name: f"{name}({x})" for name in UNARY.split()}
        calls |= {name: f"{name}({x}, {y})" for name in BINARY.split()}
        calls |= {name: f"{name}({x}, {y}, {z})" for name in TERNARY.split()}
        calls |= {name: f"{name}({x}, &other) + other" for name in POINTER.split()}
        calls |= {
            name: f"{name}({x}, &whole) + convert_{kind}(whole)" for name in INT_POINTER.split()
        }
        calls["remquo"] = f"remquo({x}, {y}, &whole) + convert_{kind}(whole)"
        calls |= {name: f"{name}({x}, ({ints})(3))" for name in WITH_INT.split()}
        calls |= {name: f"convert_{kind}({name}({x}))" for name in REAL_TO_INT.split()}
        calls |= {name: f"convert_{kind}({name}({x}, {y}))" for name in RELATIONAL.split()}
        calls |= {name: f"({kind})({name}({x}))" for name in TO_SCALAR.split()}
        calls |= {name: f"({kind})({name}({x}, {y}))" for name in TO_SCALAR_2.split()}
        if kind == "float4":
            calls["cross"] = f"cross({x}, {y})"
        for name, call in calls.items():
            if base == "double" and name.startswith(("half_", "native_", "fast_")):
                continue  # of floats only
            bodies[f"{name}_{kind}"] = (
                f"{kind} other = 0; {ints} whole = 0; {kind} r = {call}; "
                f"(void)other; (void)whole; store_{kind}(r, out);"
            )
    return bodies


def _integers() -> dict[str, str]:
    bodies = {}
    for kind in ("int", "uint", "char4", "ushort8", "long2"):
        x, y, z = (f"({kind})((int)(1000 * v[{i}]))" for i in range(3))
        calls = {name: f"{name}({x})" for name in INTEGER.split()}
        calls |= {name: f"{name}({x}, {y})" for name in INTEGER_2.split()}
        calls |= {name: f"{name}({x}, {y}, {z})" for name in INTEGER_3.split()}
        for name, call in calls.items():
            if name in ("mul24", "mad24") and not kind.endswith("int"):
                continue
            bodies[f"{name}_{kind}"] = (
                f"__auto_type r = {call}; uchar b[sizeof r]; __builtin_memcpy(b, &r, sizeof r); "
                "uint s = 0; for (uint k = 0; k < sizeof r; k++) s = s * 31 + b[k]; *out = s;"
            )
    bodies["upsample"] = "*out = upsample((short)(99 * v[0]), (ushort)(77 * v[1]));"
    bodies["any"] = "*out = any((int4)(1 - (int)(2 * v[0])));"
    bodies["all"] = "*out = all((int4)(1 - (int)(2 * v[0])));"
    bodies["convert"] = "*out = convert_int_sat_rte(1e3f * v[0]) + convert_uchar_rtz(9 * v[1]);"
    bodies["as"] = "*out = as_uint(v[0]) ^ as_int4((float4)(v[1])).x;"
    return bodies


def _memory() -> dict[str, str]:
    bodies = {}
    for n in SIZES:
        bodies[f"vload_vstore{n}"] = f"vstore{n}(vload{n}(0, v), 0, (global float *)out);"
        half = f"vstore_half{n}(vload{n}(0, v), 0, (global half *)out);"
        bodies[f"vstore_half{n}"] = half
        bodies[f"vload_half{n}"] = (
            f"vstore{n}(vload_half{n}(0, (global half *)v), 0, (global float *)out);"
        )
        bodies[f"vloada_half{n}"] = (
            f"vstorea_half{n}_rtz(vloada_half{n}(0, (global half *)v), 0, (global half *)out);"
        )
    for rounding in ("", "_rte", "_rtz", "_rtp", "_rtn"):
        bodies[f"vstore_half{rounding}"] = f"vstore_half{rounding}(v[0], 0, (global half *)out);"
    bodies["vload_half"] = "*out = as_uint(vload_half(0, (global half *)v));"
    for n in (2, 4, 8, 16):
        bodies[f"shuffle{n}"] = (
            f"vstore{n}(shuffle(vload{n}(0, v), (uint{n})(1)), 0, (global float *)out);"
        )
        bodies[f"shuffle2_{n}"] = (
            f"vstore{n}(shuffle2(vload{n}(0, v), vload{n}(1, v), (uint{n})(3)), 0, "
            "(global float *)out);"
        )
    for prefix in ("atomic", "atom"):
        for space in ("global", "local"):
            place, shown = "total", "*out = 1;"
            if space == "local":
                place, shown = "shared", "barrier(CLK_LOCAL_MEM_FENCE); *out = *shared;"
            for name in ATOMIC.split():
                bodies[f"{prefix}_{name}_{space}"] = (
                    f"{prefix}_{name}({place}, (int)(100 * v[0])); {shown}"
                )
            for name in ("inc", "dec"):
                bodies[f"{prefix}_{name}_{space}"] = f"{prefix}_{name}({place}); {shown}"
            bodies[f"{prefix}_cmpxchg_{space}"] = f"{prefix}_cmpxchg({place}, 0, 5); {shown}"
    bodies["atomic_xchg_float"] = "*out = as_uint(atomic_xchg((global float *)out, v[0]));"
    for copy in ("async_work_group_copy(area, x, 32, 0)",
                 "async_work_group_strided_copy(area, x, 32, 2, 0)"):  # fmt: skip
        bodies[copy.partition("(")[0]] = (
            f"event_t e = {copy}; wait_group_events(1, &e); *out = as_uint(area[get_local_id(0)]);"
        )
    bodies["prefetch"] = "prefetch(v, 16); *out = 1;"
    return bodies


def _groups() -> dict[str, str]:
    bodies = {name: f"*out = (uint){name}(0);" for name in QUERY.split()}
    bodies |= {name: f"*out = (uint){name}();" for name in QUERY_0.split()}
    for name in ("mem_fence", "read_mem_fence", "write_mem_fence", "barrier", "work_group_barrier"):
        bodies[name] = f"*out = 1; {name}(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); *out += 1;"
    bodies["printf"] = 'if (v[0] > 2) printf("%f", v[0]); *out = 2;'
    bodies["vec_step"] = "*out = vec_step(float3);"
    for name in ("load", "fetch_add", "fetch_max", "exchange"):
        operand = "" if name == "load" else ", 3"
        bodies[f"atomic_{name}_explicit"] = (
            f"*out = 0; atomic_{name}_explicit((global atomic_int *)total{operand}, "
            "memory_order_relaxed, memory_scope_device);"
        )
    bodies["work_group_reduce_add"] = "*out = work_group_reduce_add(1);"
    return bodies


def bodies() -> dict[str, str]:
    """Statements that call a function and leave 16 words at `out`, by name."""
    return {**_reals(), **_integers(), **_memory(), **_groups()}


def kernel(name: str, statements: list[str]) -> str:
    """A kernel that runs all these in a branch that the device must count."""
    calls = "".join(
        f"{{ global uint *out = outs + 16 * (i * {len(statements)} + {slot}); {body} }}\n"
        for slot, body in enumerate(statements)
    )
    return (
        f"kernel void {name}(global float *x, global uint *outs, global int *total, "
        "local int *shared, local float *area) { size_t i = get_global_id(0); "
        "global float *v = x + 16 * i; if (!get_local_id(0)) *shared = 0; "
        f"barrier(CLK_LOCAL_MEM_FENCE); if (v[0] < 1000.0f) {{\n{calls}}} }}\n"
    )


HEAD = """
#pragma OPENCL EXTENSION cl_khr_global_int32_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_local_int32_base_atomics : enable
void store_float(float r, global uint *out) { *(global float *)out = r; }
void store_float4(float4 r, global uint *out) { vstore4(r, 0, (global float *)out); }
void store_double2(double2 r, global uint *out) { vstore2(r, 0, (global double *)out); }
"""


def accepted(device: Device, names: list[str]) -> list[str]:
    """Those of the functions that the device builds from source, by halving what does not build."""
    every = bodies()
    try:
        device.build_source(HEAD + "".join(kernel(f"k_{name}", [every[name]]) for name in names))
    except Exception:
        if len(names) == 1:
            return []
        half = len(names) // 2
        return accepted(device, names[:half]) + accepted(device, names[half:])
    return names


def results(
    device: Device, program: object, name: str, calls: int, ours: Instrumented | None
) -> tuple[np.ndarray, int]:
    """What a kernel of so many calls leaves for each, natively or with counters; and in `total`."""
    x = np.random.default_rng(1).uniform(0.05, 0.95, 16 * ITEMS).astype(np.float32)
    out, total = np.zeros((ITEMS, calls, 16), np.uint32), np.zeros(1, np.int32)
    buffers = [device.buffer(array) for array in (x, out, total)]
    local = [device.cl.LocalMemory(4), device.cl.LocalMemory(4 * LOCAL)]
    more = []
    if ours is not None:
        made = ours.kernels[name]
        area = np.zeros(FIRST + HEADER + ITEMS // LOCAL * made.n_probes, np.uint64)
        more = [device.buffer(area), np.uint64(FIRST), made.scratch(device.cl, LOCAL)]
    device.run(program, name, [*buffers, *local, *more], (ITEMS,), (LOCAL,))
    return device.read(buffers[1], out), int(device.read(buffers[2], total)[0])


def main() -> None:
    """Print a line per function: `same`, `differs` or `absent`, and its name."""
    device, every = Device(), bodies()
    names = accepted(device, list(every))
    for name in sorted(set(every) - set(names)):
        print("absent", name)
    groups = [names[at : at + CALLS] for at in range(0, len(names), CALLS)]
    source = HEAD + "".join(
        kernel(f"group_{number}", [every[name] for name in group])
        for number, group in enumerate(groups)
    )
    native = device.build_source(source)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "built_ins.cl"
        file.write_text(source)
        language = " ".join(feature.name for feature in device.device.opencl_c_features)
        known = {
            "version": "300",
            "extensions": device.device.extensions,
            "c_features": language,
        }
        features = [f"--device={name}={value}" for name, value in known.items()]
        counted = instrument(file, Path(folder), *features)
    program = device.build_module(counted.module)
    for number, group in enumerate(groups):
        print("ran", group[0], flush=True)  # the last one, if it ends the process
        own, other = (
            results(device, built, f"group_{number}", len(group), ours)
            for built, ours in ((native, None), (program, counted))
        )
        for slot, name in enumerate(group):
            same = np.array_equal(own[0][:, slot], other[0][:, slot]) and own[1] == other[1]
            print("same" if same else "differs", name)


if __name__ == "__main__":
    main()
