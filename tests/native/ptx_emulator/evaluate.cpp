// SPDX-License-Identifier: Apache-2.0
#include "evaluate.h"

#include <math.h>
#include <string.h>

#include <algorithm>
#include <stdexcept>

namespace emulator {
namespace {

template <typename T>
T as(uint64_t bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename T>
uint64_t bits_of(T value) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}

[[noreturn]] void unknown(const Instruction &at) {
  std::string text = at.op;
  for (const std::string &suffix : at.suffixes) text += "." + suffix;
  throw std::runtime_error("the emulator does not know " + text);
}

template <typename T>
uint64_t floating(const Instruction &at, T a, T b, T c) {
  const std::string &op = at.op;
  if (op == "mov" || op == "selp") return bits_of(a);
  if (op == "add") return bits_of<T>(a + b);
  if (op == "sub") return bits_of<T>(a - b);
  if (op == "mul") return bits_of<T>(a * b);
  if (op == "div") return bits_of<T>(a / b);
  if (op == "fma" || op == "mad") return bits_of<T>(std::fma(a, b, c));
  if (op == "neg") return bits_of<T>(-a);
  if (op == "abs") return bits_of<T>(std::fabs(a));
  if (op == "min") return bits_of<T>(std::fmin(a, b));
  if (op == "max") return bits_of<T>(std::fmax(a, b));
  if (op == "sqrt") return bits_of<T>(std::sqrt(a));
  if (op == "rsqrt") return bits_of<T>(1 / std::sqrt(a));
  if (op == "rcp") return bits_of<T>(1 / a);
  if (op == "ex2") return bits_of<T>(std::exp2(a));
  if (op == "lg2") return bits_of<T>(std::log2(a));
  if (op == "sin") return bits_of<T>(std::sin(a));
  if (op == "cos") return bits_of<T>(std::cos(a));
  unknown(at);
}

template <typename T>
bool compared(const std::string &how, T a, T b) {
  if (how == "eq" || how == "equ") return a == b;
  if (how == "ne" || how == "neu") return a != b;
  if (how == "lt" || how == "lo" || how == "ltu") return a < b;
  if (how == "le" || how == "ls" || how == "leu") return a <= b;
  if (how == "gt" || how == "hi" || how == "gtu") return a > b;
  if (how == "ge" || how == "hs" || how == "geu") return a >= b;
  throw std::runtime_error("the emulator does not know the comparison " + how);
}

int64_t signed_of(uint64_t bits, uint32_t bytes) {
  unsigned shift = 64 - 8 * bytes;
  return static_cast<int64_t>(bits << shift) >> shift;
}

uint64_t multiply(const Instruction &at, const Type &type, uint64_t a, uint64_t b) {
  if (!at.has("hi")) return a * b; /* .lo; .wide of extended operands */
  unsigned bits = 8 * type.bytes;
  if (type.kind == 's')
    return static_cast<uint64_t>(
        (static_cast<__int128>(static_cast<int64_t>(a)) * static_cast<int64_t>(b)) >> bits);
  return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> bits);
}

uint64_t shift(const Instruction &at, const Type &type, uint64_t a, uint64_t by) {
  unsigned bits = 8 * type.bytes;
  if (at.op == "shl") return by >= bits ? 0 : a << by;
  if (type.kind == 's')
    return static_cast<uint64_t>(static_cast<int64_t>(a) >> std::min<uint64_t>(by, bits - 1));
  return by >= bits ? 0 : a >> by;
}

uint64_t extract(const Type &type, uint64_t a, uint64_t from, uint64_t n) {
  n &= 255;
  uint64_t field = (from & 255) >= 64 ? 0 : a >> (from & 255);
  if (n < 64) field &= (uint64_t{1} << n) - 1;
  if (type.kind == 's' && n && n < 64 && (field >> (n - 1) & 1)) field |= ~uint64_t{0} << n;
  return field;
}

uint64_t divided(const Instruction &at, const Type &type, uint64_t a, uint64_t b) {
  bool rest = at.op == "rem";
  if (b == 0) return rest ? a : ~uint64_t{0};
  if (type.kind != 's') return rest ? a % b : a / b;
  int64_t x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
  if (y == -1) return rest ? 0 : 0 - a;
  return static_cast<uint64_t>(rest ? x % y : x / y);
}

/* shf.l.wrap.b32 d, a, b, by: the upper word of b:a shifted left, or the lower of it shifted right.
 */
uint64_t funnel(const Instruction &at, uint64_t a, uint64_t b, uint64_t by) {
  by = at.has("wrap") ? by & 31 : std::min<uint64_t>(by, 32);
  uint64_t both = b << 32 | (a & 0xffffffffu);
  return (at.has("l") ? both << by >> 32 : both >> by) & 0xffffffffu;
}

/* Each nibble of `which` chooses a byte of b:a, or its sign. */
uint64_t permuted(uint64_t a, uint64_t b, uint64_t which) {
  uint64_t both = b << 32 | (a & 0xffffffffu), result = 0;
  for (unsigned i = 0; i < 4; i++) {
    uint64_t nibble = which >> 4 * i, byte = both >> 8 * (nibble & 7) & 0xff;
    if (nibble & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << 8 * i;
  }
  return result;
}

uint64_t integer(const Instruction &at, const Type &type, uint64_t a, uint64_t b, uint64_t c) {
  const std::string &op = at.op;
  const bool is_signed = type.kind == 's';
  if (op == "mov" || op == "selp" || op == "cvta") return a;
  if (op == "add") return a + b;
  if (op == "sub") return a - b;
  if (op == "mul") return multiply(at, type, a, b);
  if (op == "mad") return multiply(at, type, a, b) + c;
  if (op == "div" || op == "rem") return divided(at, type, a, b);
  if (op == "and") return a & b;
  if (op == "or") return a | b;
  if (op == "xor") return a ^ b;
  if (op == "not") return ~a;
  if (op == "neg") return 0 - a;
  if (op == "abs") return static_cast<int64_t>(a) < 0 ? 0 - a : a;
  if (op == "shl" || op == "shr") return shift(at, type, a, b & 0xffffffffu);
  if (op == "min" || op == "max") {
    bool less = is_signed ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
    return less == (op == "min") ? a : b;
  }
  if (op == "popc") return static_cast<uint64_t>(__builtin_popcountll(a));
  if (op == "clz")
    return a ? static_cast<uint64_t>(__builtin_clzll(a)) - (64 - 8 * type.bytes) : 8 * type.bytes;
  if (op == "bfe") return extract(type, a, b, c);
  if (op == "shf") return funnel(at, a, b, c);
  if (op == "prmt" && at.suffixes.size() == 1) return permuted(a, b, c);
  unknown(at);
}

double number(const Type &type, uint64_t bits) {
  if (type.kind == 'f') return type.bytes == 8 ? as<double>(bits) : as<float>(bits);
  return type.kind == 's' ? static_cast<double>(static_cast<int64_t>(bits))
                          : static_cast<double>(bits);
}

uint64_t rounded(const Instruction &at, const Type &to, double value) {
  value = at.has("rni")   ? nearbyint(value)
          : at.has("rmi") ? floor(value)
          : at.has("rpi") ? ceil(value)
                          : trunc(value);
  const double most = ldexp(1, static_cast<int>(8 * to.bytes) - (to.kind == 's'));
  if (std::isnan(value)) return 0;
  if (to.kind == 's') {
    if (value >= most) return static_cast<uint64_t>(most - 1);
    return static_cast<uint64_t>(static_cast<int64_t>(std::max(value, -most)));
  }
  if (value >= most) return ~uint64_t{0};
  return value < 0 ? 0 : static_cast<uint64_t>(value);
}

}  // namespace

uint64_t extended(const Type &type, uint64_t bits) {
  if (type.bytes == 8) return bits;
  bits &= (uint64_t{1} << 8 * type.bytes) - 1;
  return type.kind == 's' ? static_cast<uint64_t>(signed_of(bits, type.bytes)) : bits;
}

uint64_t evaluate(const Instruction &at, const Type &type, uint64_t a, uint64_t b, uint64_t c) {
  if (type.kind == 'f' && type.bytes == 4)
    return floating(at, as<float>(a), as<float>(b), as<float>(c));
  if (type.kind == 'f') return floating(at, as<double>(a), as<double>(b), as<double>(c));
  return integer(at, type, a, b, c);
}

uint64_t convert(const Instruction &at, uint64_t value) {
  const Type &to = at.types.at(0), &from = at.types.at(1);
  if (to.kind != 'f' && from.kind != 'f') return value;
  double exact = number(from, value);
  if (to.kind != 'f') return rounded(at, to, exact);
  if (to.bytes == 8) return bits_of(exact);
  if (from.kind == 'u') return bits_of(static_cast<float>(value));
  if (from.kind == 's') return bits_of(static_cast<float>(static_cast<int64_t>(value)));
  return bits_of(static_cast<float>(exact));
}

bool compare(const std::string &how, const Type &type, uint64_t a, uint64_t b) {
  if (type.kind == 'f' && type.bytes == 4) return compared(how, as<float>(a), as<float>(b));
  if (type.kind == 'f') return compared(how, as<double>(a), as<double>(b));
  if (type.kind == 's') return compared(how, static_cast<int64_t>(a), static_cast<int64_t>(b));
  return compared(how, a, b);
}

uint64_t updated(const Instruction &at, const Type &type, uint64_t old, uint64_t b, uint64_t c) {
  if (at.has("exch")) return b;
  if (at.has("cas")) return old == b ? c : old;
  if (at.has("inc")) return old >= b ? 0 : old + 1;
  if (at.has("dec")) return old == 0 || old > b ? b : old - 1;
  for (const char *op : {"add", "min", "max", "and", "or", "xor"}) {
    if (!at.has(op)) continue;
    Instruction plain;
    plain.op = op;
    return evaluate(plain, type, old, b, c);
  }
  unknown(at);
}

}  // namespace emulator
