// SPDX-License-Identifier: Apache-2.0
// Preloaded before Oclgrind's runtime: a program built from source is replaced by the bitcode that
// `$PREPARE SOURCE OUTPUT OPTION...` makes of it.
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 1000 };
static cl_program given[MOST], replaced[MOST];
static int programs;

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static cl_program in_place_of(cl_program program) {
  for (int i = 0; i < programs; i++) {
    if (given[i] == program) return replaced[i];
  }
  return program;
}

static unsigned char *prepare(const char *source, const char *options, size_t *size) {
  char path[] = "/tmp/oclgrind-XXXXXX.cl", command[1 << 14];
  int descriptor = mkstemps(path, 3);
  FILE *file = fdopen(descriptor, "w");
  fputs(source, file);
  fclose(file);
  snprintf(command, sizeof command, "env -u LD_PRELOAD $PREPARE %s %s.bc %s", path, path,
           options ? options : "");
  if (system(command) != 0) abort();
  snprintf(command, sizeof command, "%s.bc", path);
  file = fopen(command, "r");
  unsigned char *code = malloc(1 << 24);
  *size = fread(code, 1, 1 << 24, file);
  fclose(file);
  remove(path);
  remove(command);
  return code;
}

cl_int clBuildProgram(cl_program program, cl_uint number, const cl_device_id *devices,
                      const char *options, void (*done)(cl_program, void *), void *data) {
  char *source = NULL;
  size_t size = 0;
  NEXT(clGetProgramInfo)(program, CL_PROGRAM_SOURCE, 0, NULL, &size);
  if (size <= 1 || programs == MOST) {
    return NEXT(clBuildProgram)(program, number, devices, options, done, data);
  }
  source = malloc(size);
  NEXT(clGetProgramInfo)(program, CL_PROGRAM_SOURCE, size, source, NULL);
  cl_context context;
  cl_device_id device;
  NEXT(clGetProgramInfo)(program, CL_PROGRAM_CONTEXT, sizeof context, &context, NULL);
  NEXT(clGetProgramInfo)(program, CL_PROGRAM_DEVICES, sizeof device, &device, NULL);
  const unsigned char *code = prepare(source, options, &size);
  cl_int status;
  cl_program made =
      NEXT(clCreateProgramWithBinary)(context, 1, &device, &size, &code, NULL, &status);
  if (status == CL_SUCCESS) status = NEXT(clBuildProgram)(made, 1, &device, NULL, NULL, NULL);
  given[programs] = program;
  replaced[programs++] = made;
  free((void *)code);
  free(source);
  if (done) done(program, data);
  return status;
}

cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *status) {
  return NEXT(clCreateKernel)(in_place_of(program), name, status);
}

cl_int clCreateKernelsInProgram(cl_program program, cl_uint number, cl_kernel *kernels,
                                cl_uint *found) {
  return NEXT(clCreateKernelsInProgram)(in_place_of(program), number, kernels, found);
}

cl_int clGetProgramInfo(cl_program program, cl_program_info what, size_t size, void *value,
                        size_t *needed) {
  if (what != CL_PROGRAM_SOURCE) program = in_place_of(program);
  return NEXT(clGetProgramInfo)(program, what, size, value, needed);
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info what,
                             size_t size, void *value, size_t *needed) {
  return NEXT(clGetProgramBuildInfo)(in_place_of(program), device, what, size, value, needed);
}
