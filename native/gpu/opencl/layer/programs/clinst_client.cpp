#include "programs/clinst_client.hpp"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/unix_address.hpp"
#include "programs/wire.hpp"
#include "protocol/clinst_protocol.h"
#include "xpuprof/trace_format.h"

namespace layer {

namespace {

constexpr int patience_s = 300;  // a large program under a busy machine takes its time

class Socket {
 public:
  explicit Socket(const std::string &path) {
    const common::UnixAddress address(path);
    if (!address.good()) return;
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    timeval patience{patience_s, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    int error;
    while ((error = connect(fd_, address.get(), address.size)) < 0 && errno == EINTR) {
    }
    connected_ = error == 0;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket &) = delete;
  Socket &operator=(const Socket &) = delete;

  bool send_all(const std::string &data) {
    size_t at = 0;
    while (connected_ && at < data.size()) {
      ssize_t n = send(fd_, data.data() + at, data.size() - at, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      at += static_cast<size_t>(n);
    }
    return connected_ && shutdown(fd_, SHUT_WR) == 0;
  }
  bool receive_all(std::string *data) {
    char buffer[1 << 16];
    for (;;) {
      ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return n == 0;
      data->append(buffer, static_cast<size_t>(n));
    }
  }

 private:
  int fd_ = -1;
  bool connected_ = false;
};

std::string encode(const std::vector<Part> &parts, uint32_t flags, uint32_t output,
                   const std::string &features) {
  Message message;
  message.u32(CLINST_MAGIC);
  message.u32(flags);
  message.u32(output);
  message.bytes(features);
  add_parts(&message, parts);
  return message.data();
}

bool sound(const InstrumentedKernel::Node &node, uint32_t at, uint32_t n_args) {
  if (node.bits < 1 || node.bits > 64 || node.op >= CLINST_OPS) return false;
  if (node.op == CLINST_ARGUMENT) return node.value < n_args;
  if (node.op == CLINST_QUERY) return node.a < CLINST_QUERIES && node.b < 3;
  if (node.op == CLINST_CONSTANT) return true;
  return node.a < at && (node.op >= CLINST_ZEXT || node.b < at) &&
         (node.op != CLINST_SELECT || node.c < at);
}

void decode_nodes(Reader *answer, InstrumentedKernel *kernel) {
  kernel->nodes.resize(answer->count(28));
  for (uint32_t n = 0; n < kernel->nodes.size(); n++) {
    auto &node = kernel->nodes[n];
    for (uint32_t *field : {&node.op, &node.bits, &node.a, &node.b, &node.c})
      *field = answer->number<uint32_t>();
    node.value = answer->number<uint64_t>();
    if (!sound(node, n, kernel->n_args)) answer->good = false;
    if (node.op == CLINST_ARGUMENT) {
      node.a = static_cast<uint32_t>(kernel->integers.size());
      kernel->integers.push_back(static_cast<uint32_t>(node.value));
    }
  }
  kernel->outputs.resize(answer->count(12));
  for (auto &output : kernel->outputs) {
    for (uint32_t *field : {&output.node, &output.shift, &output.bits})
      *field = answer->number<uint32_t>();
    if (output.node >= kernel->nodes.size() || output.shift > 63 || output.bits > 64)
      answer->good = false;
  }
  if (!kernel->nodes.empty() && kernel->outputs.size() != kernel->n_probes) answer->good = false;
}

InstrumentedKernel decode_kernel(Reader *answer) {
  InstrumentedKernel kernel;
  kernel.n_args = answer->number<uint32_t>();
  kernel.blocks.resize(answer->count(4 + 2 * XP_MIX_COUNT));
  for (xpu_block &block : kernel.blocks) {
    block.instructions = answer->number<uint32_t>();
    for (uint16_t &mix : block.mix) mix = answer->number<uint16_t>();
  }
  kernel.n_probes = answer->number<uint32_t>();
  kernel.scratch_probes = answer->number<uint32_t>();
  kernel.formulas.resize(kernel.blocks.size());
  for (auto &formula : kernel.formulas) {
    formula.resize(answer->count(8));
    for (auto &term : formula) {
      term.probe = answer->number<int32_t>();
      term.factor = answer->number<int32_t>();
      if (term.probe < -1 || term.probe >= static_cast<int64_t>(kernel.n_probes))
        answer->good = false;
    }
  }
  decode_nodes(answer, &kernel);
  kernel.accesses.resize(answer->count(4));
  for (uint32_t &n : kernel.accesses) n = answer->number<uint32_t>();
  kernel.unrecorded = answer->number<uint32_t>();
  kernel.pointers.resize(answer->count(4));
  for (uint32_t &argument : kernel.pointers) {
    argument = answer->number<uint32_t>();
    if (argument >= kernel.n_args) answer->good = false;
  }
  if (!kernel.accesses.empty() && kernel.accesses.size() != kernel.blocks.size())
    answer->good = false;
  return kernel;
}

Instrumented decode(const std::string &data) {
  Instrumented result;
  Reader answer(data);
  uint32_t magic = answer.number<uint32_t>(), status = answer.number<uint32_t>();
  std::string message = answer.bytes();
  if (magic != CLINST_MAGIC || !answer.good) {
    result.reason = "the instrumenter's answer cannot be read";
    return result;
  }
  if (status) {
    result.reason = message.empty() ? "the instrumenter refused the program" : message;
    return result;
  }
  result.module = answer.bytes();
  uint32_t kernels = answer.count(8);
  for (uint32_t k = 0; k < kernels && answer.good; k++) {
    std::string name = answer.bytes();
    result.kernels.emplace_back(name, decode_kernel(&answer));
  }
  if (!answer.good) result.reason = "the instrumenter's answer is cut short";
  return result;
}

}  // namespace

bool InstrumentedKernel::has_accesses() const {
  // A kernel may access memory by asynchronous copies alone.
  return !pointers.empty() ||
         std::any_of(accesses.begin(), accesses.end(), [](uint32_t n) { return n != 0; });
}

Instrumented instrument(const std::vector<Part> &parts, uint32_t flags, uint32_t output,
                        const std::string &features) {
  const char *path = std::getenv(XPU_ENV_CLINST);
  Instrumented failed;
  if (!path || !*path) {
    failed.reason = "no instrumenter is running";
    return failed;
  }
  Socket socket(path);
  std::string data;
  if (!socket.send_all(encode(parts, flags, output, features)) || !socket.receive_all(&data)) {
    failed.reason = "the instrumenter does not answer";
    return failed;
  }
  return decode(data);
}

}  // namespace layer
