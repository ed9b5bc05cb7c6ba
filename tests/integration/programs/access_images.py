# SPDX-License-Identifier: Apache-2.0
"""Kernels that read and write images; test_opencl_memory.py has the model. Each launch is printed
by name."""

import numpy as np
import pyopencl as cl

SOURCE = """
#define SAMPLER CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST
constant sampler_t nearest = CLK_NORMALIZED_COORDS_TRUE | SAMPLER;
constant sampler_t texels = CLK_NORMALIZED_COORDS_FALSE | SAMPLER;

kernel void plane(read_only image2d_t from, write_only image2d_t to, sampler_t sampler) {
  int2 at = (int2)(get_global_id(0), get_global_id(1));
  float4 left = read_imagef(from, sampler, at - (int2)(3, 0));
  write_imagef(to, at, left + read_imagef(from, sampler, at));
}
kernel void scaled(read_only image2d_t from, global float4 *to) {
  float2 at = (float2)(get_global_id(0) + 0.5f, get_global_id(1) + 0.5f);
  size_t i = get_global_id(1) * get_global_size(0) + get_global_id(0);
  to[i] = read_imagef(from, nearest, at * (float2)(1.0f / 32, 1.0f / 16)) +
          read_imagef(from, texels, at);
}
kernel void layers(read_only image2d_array_t from, global float4 *to) {
  int4 at = (int4)(get_global_id(0), get_global_id(1), get_global_id(2), 0);
  to[(at.z * 8 + at.y) * 16 + at.x] = read_imagef(from, texels, at);
}
kernel void body(read_only image3d_t from, global float4 *to) {
  int4 at = (int4)(get_global_id(0), get_global_id(1), get_global_id(2), 0);
  to[(at.z * 8 + at.y) * 16 + at.x] = read_imagef(from, texels, at);
}
kernel void sampled(read_only image2d_t from, sampler_t sampler, global float4 *to) {
  to[get_global_id(0)] = read_imagef(from, sampler, (float2)(get_global_id(0) + 0.5f, 0.5f));
}
"""


def main() -> None:
    """Runs each kernel once."""
    context = cl.Context(cl.get_platforms()[0].get_devices()[:1])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build()
    rgba = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
    flags = cl.mem_flags

    def image(shape: tuple[int, ...], layers: bool = False) -> cl.Image:
        host = np.zeros((*shape[::-1], 4), np.float32)
        return cl.Image(
            context,
            flags.READ_WRITE | flags.COPY_HOST_PTR,
            rgba,
            shape=shape,
            is_array=layers,
            hostbuf=host,
        )

    sampler = cl.Sampler(context, False, cl.addressing_mode.CLAMP_TO_EDGE, cl.filter_mode.NEAREST)
    first, second = image((32, 16)), image((32, 16))
    stack, body = image((16, 8, 4), layers=True), image((16, 8, 4))
    out = cl.Buffer(context, flags.READ_WRITE, 512 * 16)
    launches = [
        ("plane", (32, 16), (8, 4), (first, second, sampler)),
        ("scaled", (32, 16), (16, 2), (second, out)),
        ("layers", (16, 8, 4), (8, 4, 2), (stack, out)),
        ("body", (16, 8, 4), (8, 4, 2), (body, out)),
        ("sampled", (32,), (32,), (first, sampler, out)),
    ]
    for name, size, local, given in launches:
        print(name)
        kernel = cl.Kernel(program, name)
        kernel.set_args(*given)
        cl.enqueue_nd_range_kernel(queue, kernel, size, local).wait()


if __name__ == "__main__":
    main()
