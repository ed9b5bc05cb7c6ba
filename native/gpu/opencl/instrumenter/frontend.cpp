// SPDX-License-Identifier: Apache-2.0
#include "frontend.h"

#include <LLVMSPIRVLib/LLVMSPIRVLib.h>
#include <clang/Basic/Version.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/CompilerInstance.h>
#if CLANG_VERSION_MAJOR < 22
#include <clang/Frontend/Utils.h>
#else
#include <clang/Driver/CreateInvocationFromArgs.h>
#endif
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/Path.h>
#include <llvm/Support/VirtualFileSystem.h>

#include <cstring>
#include <sstream>

namespace clinst {
namespace {

// The program and its headers as the compiler sees them. A fixed name: __FILE__ is the same in
// every run.
constexpr char kFolder[] = "/xpuprof-program/";

// The compiler's own headers, such as opencl-c-base.h, are installed beside this program.
std::string resources() {
  llvm::SmallString<128> path(llvm::sys::fs::getMainExecutable(nullptr, nullptr));
  llvm::sys::path::remove_filename(path);
  llvm::sys::path::append(path, "clang");
  return std::string(path);
}

std::string device_value(const Request &request, const std::string &key,
                         const std::string &otherwise) {
  auto found = request.device.find(key);
  return found == request.device.end() ? otherwise : found->second;
}

// Whether a backslash before it is left out; '\0' is the end of the options.
bool is_escaped(char c) {
  return c && (c == '"' || c == '\\' || std::isspace(static_cast<unsigned char>(c)));
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

// What is in memory lies over the file system.
llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> files_of(const Part &part) {
  llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> memory(new llvm::vfs::InMemoryFileSystem);
  auto add = [&](const std::string &name, const std::string &text) {
    memory->addFile(kFolder + name, 0, llvm::MemoryBuffer::getMemBufferCopy(text));
  };
  add("program.cl", part.payload);
  for (const auto &[name, text] : part.headers) {
    if (name.empty() || name[0] == '/' || name.find("..") != std::string::npos)
      throw Failure("the header name '" + name + "' leaves its folder");
    add("headers/" + name, text);
  }
  llvm::IntrusiveRefCntPtr<llvm::vfs::OverlayFileSystem> files(
      new llvm::vfs::OverlayFileSystem(llvm::vfs::createPhysicalFileSystem()));
  files->pushOverlay(memory);
  return files;
}

class FirstError : public clang::DiagnosticConsumer {
 public:
  void HandleDiagnostic(clang::DiagnosticsEngine::Level level,
                        const clang::Diagnostic &diagnostic) override {
    DiagnosticConsumer::HandleDiagnostic(level, diagnostic);
    if (level >= clang::DiagnosticsEngine::Error && text_.empty())
      diagnostic.FormatDiagnostic(text_);
  }
  std::string text() const { return text_.empty() ? "no message" : text_.str().str(); }

 private:
  llvm::SmallString<128> text_;
};

std::unique_ptr<llvm::Module> read_bitcode(llvm::LLVMContext &context, const std::string &bytes) {
  auto buffer = llvm::MemoryBuffer::getMemBuffer(bytes, "program", false);
  auto module = llvm::parseBitcodeFile(buffer->getMemBufferRef(), context);
  if (!module) {
    throw Failure("the bitcode cannot be read: " + llvm::toString(module.takeError()));
  }
  return std::move(*module);
}

// Null if the words are no valid command line; `error` has the reason.
std::unique_ptr<clang::CompilerInstance> compiler_of(
    const std::vector<const char *> &words, llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> files,
    FirstError *error) {
#if CLANG_VERSION_MAJOR >= 22
  clang::DiagnosticOptions options;
#endif
  clang::CreateInvocationOptions how;
  how.VFS = files;
#if CLANG_VERSION_MAJOR < 22
  how.Diags = clang::CompilerInstance::createDiagnostics(new clang::DiagnosticOptions, error,
                                                         /*ShouldOwnClient=*/false);
#else
  how.Diags = clang::CompilerInstance::createDiagnostics(*files, options, error,
                                                         /*ShouldOwnClient=*/false);
#endif
  std::shared_ptr<clang::CompilerInvocation> invocation = clang::createInvocation(words, how);
  if (!invocation || error->getNumErrors()) return nullptr;
#if CLANG_VERSION_MAJOR < 22
  auto compiler = std::make_unique<clang::CompilerInstance>();
  compiler->setInvocation(invocation);
  compiler->createDiagnostics(error, /*ShouldOwnClient=*/false);
  compiler->createFileManager(files);
#else
  auto compiler = std::make_unique<clang::CompilerInstance>(invocation);
  compiler->setVirtualFileSystem(files);
  compiler->createDiagnostics(error, /*ShouldOwnClient=*/false);
  compiler->createFileManager();
#endif
  return compiler;
}

// Clang's command line for one source. `folder`: where it was compiled; may be empty.
std::vector<std::string> command_line(const Request &request, const Part &part,
                                      const std::string &folder) {
  std::vector<std::string> arguments = {
    "clang",
    "-target",
    "spir64",
    "-x",
    "cl",
    "-c",
    "-emit-llvm",
    // -O2 keeps types for alias analysis and lifetimes; we choose the passes.
    "-O2",
    "-Xclang",
    "-disable-llvm-passes",
#if LLVM_VERSION_MAJOR < 17
    "-Xclang",
    "-no-opaque-pointers",
#endif
    // As in the runtimes' front ends.
    "-fno-builtin",
    "-fno-math-errno",
    "-w",
    "-resource-dir",
    resources()
  };
  int version = language_version(request, part);
  arguments.push_back(version >= 300 ? "-cl-std=CL3.0" : "-cl-std=CL1.2");
  // Clang 15 supports no later language; the program's version checks must still hold.
  if (version > 300)
    arguments.insert(arguments.end(), {"-U__OPENCL_C_VERSION__",
                                       "-D__OPENCL_C_VERSION__=" + std::to_string(version)});
  add_device(arguments, request, version);
  if (!folder.empty()) arguments.insert(arguments.end(), {"-working-directory", folder});
  for (const std::string &option : split_options(request, part.options)) {
    // Our optimisation level is part of the definition of a block: the same for every run.
    if (version > 300 && option.rfind("-cl-std=", 0) == 0) continue;
    if (option == "-cl-opt-disable" || option.rfind("-O", 0) == 0) continue;
    // Options that a runtime's compiler handles after the front end.
    if (option.rfind("-cl-intel-", 0) == 0 || option == "-cl-no-subgroup-ifp") continue;
    arguments.push_back(option);
  }
  // Drivers finally look for headers in the working directory too.
  const std::string folder_of_headers = std::string(kFolder) + "headers";
  arguments.insert(arguments.end(),
                   {"-I.", "-I" + folder_of_headers, std::string(kFolder) + "program.cl"});
  return arguments;
}

std::unique_ptr<llvm::Module> compile_source(llvm::LLVMContext &context, const Request &request,
                                             const Part &part, std::vector<std::string> &included) {
  const std::string folder = device_value(request, "cwd", "");
  const std::vector<std::string> arguments = command_line(request, part, folder);
  std::vector<const char *> words;
  for (const std::string &argument : arguments) words.push_back(argument.c_str());

  FirstError error;
  auto failed = [&] {
    return Failure("the kernels do not compile with clang " + std::to_string(CLANG_VERSION_MAJOR) +
                   ": " + error.text());
  };
  const auto compiler = compiler_of(words, files_of(part), &error);
  if (!compiler) throw failed();
  compiler->setVerboseOutputStream(std::make_unique<llvm::raw_null_ostream>());
  auto dependencies = std::make_shared<clang::DependencyCollector>();
  compiler->addDependencyCollector(dependencies);
  clang::EmitLLVMOnlyAction action(&context);
  if (!compiler->ExecuteAction(action)) throw failed();
  context.setDiscardValueNames(false);  // clang sets it, but we find our counters by name
  for (const std::string &file : dependencies->getDependencies()) {
    if (file.rfind(kFolder, 0) == 0) continue;
    bool relative = file[0] != '/' && !folder.empty();
    included.push_back(relative ? folder + "/" + file : file);
  }
  return action.takeModule();
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

bool is_for_pocl(const Request &request) { return request.output == CLINST_TO_BITCODE; }

std::vector<std::string> split_options(const Request &request, const std::string &options) {
  const bool pocl = is_for_pocl(request);
  std::vector<std::string> words;
  std::string word;
  bool open = false;  // a word has begun, if only with an empty pair of quotes
  bool quoted = false;
  for (size_t at = 0; at < options.size(); at++) {
    char c = options[at];
    bool blank = std::isspace(static_cast<unsigned char>(c));
    if (blank && !quoted) {
      if (open) words.push_back(std::move(word));
      word.clear();
      open = false;
      continue;
    }
    open = true;
    if (c == '"') {
      quoted = !quoted;
      if (pocl) word += ' ';
    } else if (!pocl && c == '\\' && is_escaped(options[at + 1])) {
      word += options[++at];
    } else {
      word += c;
    }
  }
  if (open) words.push_back(std::move(word));
  return words;
}

int language_version(const Request &request, const Part &part) {
  // The specification's default is OpenCL C 1.2. PoCL compiles as OpenCL C 3.0 when that is the
  // device's version.
  int version = is_for_pocl(request) && device_value(request, "version", "") == "300" ? 300 : 120;
  for (const std::string &option : split_options(request, part.options)) {
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
