// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "runtime.hpp"

namespace clbuild {

namespace {

cl_program create(cl_context context, cl_device_id device, const clinst::Part &part) {
  cl_int error = CL_SUCCESS;
  cl_program program = nullptr;
  const char *text = part.payload.data();
  const size_t size = part.payload.size();
  const auto *bytes = reinterpret_cast<const unsigned char *>(text);
  if (part.input == CLINST_SOURCE)
    program = CL(clCreateProgramWithSource)(context, 1, &text, &size, &error);
  else if (part.input == CLINST_SPIRV)
    program = CL(clCreateProgramWithIL)(context, text, size, &error);
  else
    program = CL(clCreateProgramWithBinary)(context, 1, &device, &size, &bytes, nullptr, &error);
  check(error);
  for (const auto &[id, value] : part.spec_constants)
    check(CL(clSetProgramSpecializationConstant)(program, id, value.size(), value.data()));
  return program;
}

cl_program compiled(cl_context context, cl_device_id device, const clinst::Part &part) {
  std::vector<cl_program> headers;
  std::vector<const char *> names;
  for (const auto &[name, text] : part.headers) {
    clinst::Part header;
    header.payload = text;
    headers.push_back(create(context, device, header));
    names.push_back(name.c_str());
  }
  const bool none = headers.empty();
  cl_program program = create(context, device, part);
  check(CL(clCompileProgram)(program, 1, &device, part.options.c_str(),
                             static_cast<cl_uint>(headers.size()), none ? nullptr : headers.data(),
                             none ? nullptr : names.data(), nullptr, nullptr));
  return program;
}

cl_program linked(cl_context context, cl_device_id device, const clinst::Request &request) {
  std::vector<cl_program> programs;
  for (const clinst::Part &part : request.parts)
    programs.push_back(compiled(context, device, part));
  cl_int error = CL_SUCCESS;
  cl_program program = CL(clLinkProgram)(context, 1, &device, request.device.at("options").c_str(),
                                         static_cast<cl_uint>(programs.size()), programs.data(),
                                         nullptr, nullptr, &error);
  check(error);
  return program;
}

}  // namespace

cl_program program_of(cl_device_id device, const clinst::Request &request) {
  static std::string latest;
  static cl_program program;
  clinst::Request asked;
  asked.parts = request.parts;
  for (const char *fact : {"cwd", "device", "options", "step"})
    if (const auto at = request.device.find(fact); at != request.device.end())
      asked.device.insert(*at);
  const std::string key = clinst::encode(asked);
  if (program && key == latest && request.device.count("kernel")) return program;
  if (program) CL(clReleaseProgram)(program);
  program = nullptr;
  program = made(context_of(device), device, request);
  latest = key;
  return program;
}

cl_program made(cl_context context, cl_device_id device, const clinst::Request &request) {
  const auto step = request.device.find("step");
  const std::string how = step == request.device.end() ? "" : step->second;
  const clinst::Part &part = request.parts.at(0);
  if (how == "link") return linked(context, device, request);
  if (how == "compile") return compiled(context, device, part);
  cl_program program = create(context, device, part);
  check(CL(clBuildProgram)(program, 1, &device, part.options.c_str(), nullptr, nullptr));
  return program;
}

}  // namespace clbuild
