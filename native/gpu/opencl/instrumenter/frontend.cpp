// SPDX-License-Identifier: Apache-2.0
#include "frontend.h"

#include <LLVMSPIRVLib/LLVMSPIRVLib.h>
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/Path.h>
#include <llvm/Support/Program.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace clinst {
namespace {

// A temporary folder for one compilation, removed with its contents.
class Scratch {
 public:
  Scratch() {
    if (llvm::sys::fs::createUniqueDirectory("xpuprof-clinst", path_)) {
      throw Failure("no temporary folder can be made; set TMPDIR to a writable folder");
    }
  }
  ~Scratch() { llvm::sys::fs::remove_directories(path_); }
  std::string file(const std::string &name) const { return std::string(path_) + "/" + name; }
  std::string path() const { return std::string(path_); }

 private:
  llvm::SmallString<128> path_;
};

std::string slurp(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

void spill(const std::string &path, const std::string &text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string clang() {
  if (const char *chosen = std::getenv("XPUPROF_CLANG")) return chosen;
  std::string beside = CLINST_LLVM_TOOLS "/clang";
  if (llvm::sys::fs::can_execute(beside)) return beside;
  auto found = llvm::sys::findProgramByName("clang-15");
  if (!found) throw Failure("clang-15 is not installed: apt-get install clang-15");
  return *found;
}

std::string device_value(const Request &request, const std::string &key,
                         const std::string &otherwise) {
  auto found = request.device.find(key);
  return found == request.device.end() ? otherwise : found->second;
}

// The features of the device, so that #ifdef in the program decides as natively.
void add_device(std::vector<std::string> &arguments, const Request &request, int version) {
  auto found = request.device.find("extensions");
  if (found != request.device.end()) {
    std::string enabled = "-cl-ext=-all";
    std::string names = found->second;
    if (version >= 300) names += " " + device_value(request, "c_features", "");
    std::istringstream words(names);
    for (std::string word; words >> word;) enabled += ",+" + word;
    arguments.insert(arguments.end(), {"-Xclang", enabled});
  }
  arguments.push_back("-D__OPENCL_VERSION__=" + device_value(request, "version", "120"));
  if (device_value(request, "endian_little", "1") != "0") {
    arguments.push_back("-D__ENDIAN_LITTLE__=1");
  }
  // Clang defines it for every spir target.
  if (device_value(request, "image_support", "1") == "0") {
    arguments.push_back("-U__IMAGE_SUPPORT__");
  }
}

void write_headers(const Scratch &scratch, const Part &part) {
  for (const auto &[name, text] : part.headers) {
    if (name.empty() || name[0] == '/' || name.find("..") != std::string::npos)
      throw Failure("the header name '" + name + "' leaves its folder");
    std::string path = scratch.file("headers/" + name);
    llvm::sys::fs::create_directories(llvm::sys::path::parent_path(path));
    spill(path, text);
  }
}

// "a.o: x.cl \<newline> y.h" -> x.cl, y.h
std::vector<std::string> dependencies(const std::string &rule) {
  std::vector<std::string> files;
  std::string word;
  size_t at = rule.find(':');
  for (at = at == std::string::npos ? rule.size() : at + 1; at <= rule.size(); at++) {
    char c = at < rule.size() ? rule[at] : '\n';
    if (c == '\\' && at + 1 < rule.size() && rule[at + 1] == ' ') {
      word += rule[++at];
    } else if (c == ' ' || c == '\n' || c == '\\') {
      if (!word.empty()) files.push_back(word);
      word.clear();
    } else {
      word += c;
    }
  }
  return files;
}

std::string first_error(const std::string &log) {
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("error: ") != std::string::npos) return line.substr(line.find("error: ") + 7);
  }
  return "clang-15 failed without a message";
}

std::unique_ptr<llvm::Module> read_bitcode(llvm::LLVMContext &context, const std::string &bytes) {
  auto buffer = llvm::MemoryBuffer::getMemBuffer(bytes, "program", false);
  auto module = llvm::parseBitcodeFile(buffer->getMemBufferRef(), context);
  if (!module) {
    throw Failure("the bitcode cannot be read: " + llvm::toString(module.takeError()));
  }
  return std::move(*module);
}

std::unique_ptr<llvm::Module> compile_source(llvm::LLVMContext &context, const Request &request,
                                             const Part &part, std::vector<std::string> &included) {
  Scratch scratch;
  spill(scratch.file("program.cl"), part.payload);
  write_headers(scratch, part);

  const std::string program = clang();
  std::vector<std::string> arguments = {
      program, "-target", "spir64", "-x", "cl", "-c", "-emit-llvm",
      // -O2 keeps types for alias analysis and lifetimes; we choose the passes.
      "-O2", "-Xclang", "-disable-llvm-passes", "-Xclang", "-no-opaque-pointers",
      // As in the runtimes' front ends.
      "-fno-builtin", "-fno-math-errno", "-w"};
  int version = language_version(request, part);
  arguments.push_back(version >= 300 ? "-cl-std=CL3.0" : "-cl-std=CL1.2");
  // Clang 15 supports no later language; the program's version checks must still hold.
  if (version > 300)
    arguments.insert(arguments.end(), {"-U__OPENCL_C_VERSION__",
                                       "-D__OPENCL_C_VERSION__=" + std::to_string(version)});
  add_device(arguments, request, version);
  const std::string folder = device_value(request, "cwd", "");
  if (!folder.empty()) arguments.insert(arguments.end(), {"-working-directory", folder});
  for (const std::string &option : split_options(part.options)) {
    // Our optimisation level is part of the definition of a block: the same for every run.
    if (version > 300 && option.rfind("-cl-std=", 0) == 0) continue;
    if (option == "-cl-opt-disable" || option.rfind("-O", 0) == 0) continue;
    // Options that a runtime's compiler handles after the front end.
    if (option.rfind("-cl-intel-", 0) == 0 || option == "-cl-no-subgroup-ifp") continue;
    arguments.push_back(option);
  }
  for (const char *path : {"headers", ""}) arguments.push_back("-I" + scratch.file(path));
  arguments.insert(arguments.end(), {"-MMD", "-MF", scratch.file("deps"), "-o",
                                     scratch.file("program.bc"), scratch.file("program.cl")});

  std::vector<llvm::StringRef> words(arguments.begin(), arguments.end());
  const std::string log = scratch.file("log");
  llvm::Optional<llvm::StringRef> streams[3] = {llvm::StringRef(""), llvm::StringRef(log),
                                                llvm::StringRef(log)};
  std::string error;
  int status = llvm::sys::ExecuteAndWait(program, words, llvm::None, streams, 0, 0, &error);
  if (status < 0) throw Failure(program + " cannot be run: " + error);
  if (status != 0) {
    throw Failure("the kernels do not compile with clang-15: " + first_error(slurp(log)));
  }
  for (const std::string &file : dependencies(slurp(scratch.file("deps")))) {
    if (file.rfind(scratch.path(), 0) == 0) continue;
    bool relative = file[0] != '/' && !folder.empty();
    included.push_back(relative ? folder + "/" + file : file);
  }
  return read_bitcode(context, slurp(scratch.file("program.bc")));
}

std::unique_ptr<llvm::Module> read_spirv(llvm::LLVMContext &context, const Part &part) {
  SPIRV::TranslatorOpts options;
  options.enableAllExtensions();
  options.setDesiredBIsRepresentation(SPIRV::BIsRepresentation::OpenCL12);
  for (const auto &[id, value] : part.spec_constants) {
    uint64_t number = 0;
    std::memcpy(&number, value.data(), std::min(value.size(), sizeof number));
    options.setSpecConst(id, number);
  }
  std::istringstream stream(part.payload);
  llvm::Module *module = nullptr;
  std::string error;
  if (!llvm::readSpirv(context, options, stream, module, error)) {
    throw Failure("the SPIR-V cannot be translated: " + error);
  }
  return std::unique_ptr<llvm::Module>(module);
}

}  // namespace

std::vector<std::string> split_options(const std::string &options) {
  std::vector<std::string> words;
  std::string word;
  bool open = false;  // a word has begun, if only with an empty pair of quotes
  char quote = 0;
  for (size_t at = 0; at < options.size(); at++) {
    char c = options[at];
    if (c == '\\' && at + 1 < options.size() && quote != '\'') {
      word += options[++at];
      open = true;
    } else if (quote ? c == quote : c == '"' || c == '\'') {
      quote = quote ? 0 : c;
      open = true;
    } else if (!quote && std::isspace(static_cast<unsigned char>(c))) {
      if (open) words.push_back(std::move(word));
      word.clear();
      open = false;
    } else {
      word += c;
      open = true;
    }
  }
  if (open) words.push_back(std::move(word));
  return words;
}

int language_version(const Request &request, const Part &part) {
  // The specification's default is OpenCL C 1.2. PoCL, which alone takes bitcode, compiles as
  // OpenCL C 3.0 when that is the device's version.
  bool pocl = request.output == CLINST_TO_BITCODE;
  int version = pocl && device_value(request, "version", "") == "300" ? 300 : 120;
  for (const std::string &option : split_options(part.options)) {
    int major = 0, minor = 0;
    if (sscanf(option.c_str(), "-cl-std=CL%d.%d", &major, &minor) == 2) {
      version = 100 * major + 10 * minor;
    }
  }
  return version;
}

Program load_program(llvm::LLVMContext &context, const Request &request) {
  if (request.parts.empty()) throw Failure("the request holds no program");
  Program program;
  for (const Part &part : request.parts) {
    std::unique_ptr<llvm::Module> module;
    switch (part.input) {
      case CLINST_SOURCE:
        module = compile_source(context, request, part, program.included);
        break;
      case CLINST_SPIRV:
        module = read_spirv(context, part);
        break;
      case CLINST_BITCODE:
        module = read_bitcode(context, part.payload);
        break;
      default:
        throw Failure("the request names an unknown form of program");
    }
    if (!program.module) {
      program.module = std::move(module);
    } else if (llvm::Linker::linkModules(*program.module, std::move(module))) {
      throw Failure(
          "the programs cannot be linked: a function is defined twice or differs in type");
    }
  }
  // The temporary folder's name must not distinguish equal programs: runtimes cache by content.
  program.module->setSourceFileName("program.cl");
  std::string error;
  llvm::raw_string_ostream stream(error);
  if (llvm::verifyModule(*program.module, &stream)) {
    throw Failure("the program's LLVM form is not valid: " + error.substr(0, error.find('\n')));
  }
  return program;
}

}  // namespace clinst
