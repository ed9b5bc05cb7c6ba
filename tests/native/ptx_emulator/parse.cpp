// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <regex>
#include <stdexcept>

#include "code.h"

namespace emulator {

bool Instruction::has(const char *suffix) const {
  return std::find(suffixes.begin(), suffixes.end(), suffix) != suffixes.end();
}

namespace {

bool type_of(const std::string &suffix, Type *type) {
  if (suffix == "pred") {
    *type = {'p', 1};
    return true;
  }
  if (suffix.size() < 2 || !strchr("subf", suffix[0])) return false;
  char *end;
  unsigned long bits = strtoul(suffix.c_str() + 1, &end, 10);
  if (*end || (bits != 8 && bits != 16 && bits != 32 && bits != 64)) return false;
  *type = {suffix[0], static_cast<uint32_t>(bits / 8)};
  return true;
}

/* Words, numbers and single characters. */
std::vector<std::string> tokens_of(const std::string &text) {
  static const std::regex token(
      R"(//[^\n]*|/\*[\s\S]*?\*/|"[^"]*"|\.(?:file|loc|version|target|address_size)\b[^\n]*|)"
      R"([%.$\w][\w.$:]*|[^\s])");
  static const std::regex line_directive(R"(\.(file|loc|version|target|address_size)\b[\s\S]*)");
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), token), end; at != end; ++at) {
    std::string word = at->str();
    if (word.compare(0, 2, "//") == 0 || word.compare(0, 2, "/*") == 0) continue;
    if (std::regex_match(word, line_directive)) continue;
    if (word.size() > 1 && word.back() == ':') { /* a label */
      found.push_back(word.substr(0, word.size() - 1));
      word = ":";
    }
    found.push_back(word);
  }
  return found;
}

uint64_t number_of(const std::string &word) {
  if (word.size() > 2 && word[0] == '0' && strchr("fFdD", word[1]))
    return strtoull(word.c_str() + 2, nullptr, 16);
  return strtoull(word.c_str(), nullptr, 0);
}

class Parser {
 public:
  explicit Parser(const std::string &text) : tokens_(tokens_of(text)) {}
  Code run();

 private:
  const std::string &peek(size_t ahead = 0) const {
    static const std::string end;
    return at_ + ahead < tokens_.size() ? tokens_[at_ + ahead] : end;
  }
  std::string next() {
    if (at_ == tokens_.size()) throw std::runtime_error("the PTX ends too early");
    return tokens_[at_++];
  }
  bool take(const char *word) {
    if (peek() != word) return false;
    at_++;
    return true;
  }
  void skip_to(const char *word) {
    while (next() != word) continue;
  }
  Variable declared(Type *type);
  std::vector<Variable> parameters(Function *function);
  void place(Variable *variable, std::map<std::string, Variable> *space, uint64_t *bytes);
  void variable(const std::string &space, Function *function);
  void initialise(const Type &type, std::vector<uint8_t> *bytes);
  void function(bool entry);
  void body(Function *function);
  void registers(Function *function);
  void instruction(Function *function);
  Operand operand(Function *function);
  Operand address(Function *function);

  const std::vector<std::string> tokens_;
  size_t at_ = 0;
  uint64_t align_ = 8;
  Code code_;
};

/* The rest of a declaration after its space: `.align 4 .b8 name[4]`. */
Variable Parser::declared(Type *type) {
  Variable made;
  *type = {};
  uint64_t count = 1;
  align_ = 0;
  while (peek()[0] == '.') {
    std::string word = next();
    if (word == ".align")
      align_ = number_of(next());
    else if (word == ".ptr" || !type_of(word.substr(1), type))
      continue;
  }
  made.name = next();
  if (take("<")) skip_to(">");
  while (take("[")) {
    count *= peek() == "]" ? 0 : number_of(peek());
    skip_to("]");
  }
  made.bytes = count * type->bytes;
  align_ = std::max<uint64_t>({align_, type->bytes, 1});
  return made;
}

void Parser::place(Variable *made, std::map<std::string, Variable> *space, uint64_t *bytes) {
  *bytes = (*bytes + align_ - 1) / align_ * align_;
  made->offset = *bytes;
  *bytes += made->bytes;
  (*space)[made->name] = *made;
}

std::vector<Variable> Parser::parameters(Function *function) {
  std::vector<Variable> found;
  if (!take("(")) return found;
  while (!take(")")) {
    if (take(",")) continue;
    if (!take(".param")) take(".reg");
    Type type;
    found.push_back(declared(&type));
    place(&found.back(), &function->params, &function->param_bytes);
  }
  return found;
}

void Parser::initialise(const Type &type, std::vector<uint8_t> *bytes) {
  uint64_t at = 0;
  while (peek() != ";") {
    std::string word = next();
    bool negative = word == "-";
    if (negative) word = next();
    if (!isdigit(static_cast<unsigned char>(word[0]))) continue;
    uint64_t value = negative ? 0 - number_of(word) : number_of(word);
    if (at + type.bytes <= bytes->size()) memcpy(bytes->data() + at, &value, type.bytes);
    at += type.bytes;
  }
}

void Parser::variable(const std::string &space, Function *function) {
  Type type;
  Variable made = declared(&type);
  if (space == ".shared") {
    if (made.bytes == 0) code_.dynamic = made.name;
    place(&made, &code_.shared, &code_.shared_bytes);
  } else if (space == ".local") {
    place(&made, &function->locals, &function->local_bytes);
  } else if (space == ".param") {
    place(&made, &function->params, &function->param_bytes);
  } else {
    std::vector<uint8_t> &bytes = code_.globals[made.name];
    bytes.resize(made.bytes);
    initialise(type, &bytes);
  }
  skip_to(";");
}

Code Parser::run() {
  while (at_ < tokens_.size()) {
    std::string word = next();
    if (word == ".entry" || word == ".func") {
      function(word == ".entry");
    } else if (word == ".global" || word == ".const" || word == ".shared") {
      variable(word, nullptr);
    } else if (word == ".section") {
      skip_to("}");
    }
  }
  return std::move(code_);
}

void Parser::function(bool entry) {
  Function made;
  made.entry = entry;
  made.outputs = parameters(&made);
  made.name = next();
  made.inputs = parameters(&made);
  while (peek() != "{" && peek() != ";") next();
  if (next() == ";") return;
  body(&made);
  code_.functions[made.name] = made;
}

void Parser::registers(Function *function) {
  Type type;
  while (peek()[0] == '.') type_of(next().substr(1), &type);
  do {
    std::string name = next();
    if (!take("<")) {
      function->registers.emplace(name, static_cast<uint32_t>(function->registers.size()));
      continue;
    }
    uint64_t n = number_of(next());
    skip_to(">");
    for (uint64_t i = 0; i < n; i++)
      function->registers.emplace(name + std::to_string(i),
                                  static_cast<uint32_t>(function->registers.size()));
  } while (take(","));
  skip_to(";");
}

void Parser::body(Function *function) {
  for (int depth = 1; depth;) {
    if (take("{")) {
      depth++;
    } else if (take("}")) {
      depth--;
    } else if (take(".reg")) {
      registers(function);
    } else if (peek() == ".local" || peek() == ".shared" || peek() == ".param") {
      variable(next(), function);
    } else if (peek()[0] == '.') {
      skip_to(";");
    } else if (peek(1) == ":") {
      std::string label = next();
      next();
      if (take(".branchtargets")) {
        for (std::string word = next(); word != ";"; word = next())
          if (word != ",") function->lists[label].push_back(word);
      } else if (take(".callprototype") || take(".calltargets")) {
        skip_to(";");
      } else {
        function->labels[label] = function->code.size();
      }
    } else {
      instruction(function);
    }
  }
}

Operand Parser::address(Function *function) {
  Operand made;
  made.kind = Operand::ADDRESS;
  for (std::string word = next(); word != "]"; word = next()) {
    if (word == "+") continue;
    if (word == "-") {
      made.value -= number_of(next());
    } else if (isdigit(static_cast<unsigned char>(word[0]))) {
      made.value += number_of(word);
    } else if (function->registers.count(word)) {
      made.based = true;
      made.index = function->registers[word];
    } else {
      made.name = word;
    }
  }
  return made;
}

Operand Parser::operand(Function *function) {
  Operand made;
  if (take("[")) return address(function);
  if (peek() == "{" || peek() == "(") {
    const char *close = next() == "{" ? "}" : ")";
    made.kind = Operand::LIST;
    while (!take(close))
      if (!take(",")) made.list.push_back(operand(function));
    return made;
  }
  made.negated = take("!");
  bool minus = take("-");
  std::string word = next();
  if (isdigit(static_cast<unsigned char>(word[0]))) {
    made.kind = Operand::NUMBER;
    made.value = minus ? 0 - number_of(word) : number_of(word);
  } else if (function->registers.count(word)) {
    made.kind = Operand::REGISTER;
    made.index = function->registers[word];
  } else {
    made.kind = Operand::SYMBOL;
    made.name = word;
  }
  if (take("|")) {
    Operand both;
    both.kind = Operand::LIST;
    both.list = {made, operand(function)};
    return both;
  }
  return made;
}

void Parser::instruction(Function *function) {
  Instruction made;
  if (take("@")) made.guard = operand(function);
  std::string opcode = next();
  for (size_t from = 0; from < opcode.size();) {
    size_t dot = std::min(opcode.find('.', from), opcode.size());
    std::string part = opcode.substr(from, dot - from);
    Type type;
    if (from == 0)
      made.op = part;
    else
      made.suffixes.push_back(part);
    if (from && type_of(part, &type)) made.types.push_back(type);
    from = dot + 1;
  }
  while (!take(";"))
    if (!take(",")) made.operands.push_back(operand(function));
  function->code.push_back(made);
}

/* ---- where diverged lanes meet: immediate post-dominators ------------------------------------ */

std::vector<size_t> successors(const Function &function, size_t i) {
  const Instruction &at = function.code[i];
  const size_t end = function.code.size();
  std::vector<size_t> found = at.targets;
  bool leaves = at.op == "ret" || at.op == "exit" || at.op == "trap";
  if (leaves) found.push_back(end);
  bool always = at.guard.kind == Operand::NONE && (leaves || at.op == "bra" || at.op == "brx");
  if (!always) found.push_back(i + 1);
  return found;
}

void resolve_targets(Function *function) {
  for (Instruction &at : function->code) {
    if (at.op != "bra" && at.op != "brx") continue;
    std::vector<std::string> names = {at.operands.back().name};
    if (at.op == "brx") names = function->lists.at(names[0]);
    for (const std::string &name : names) at.targets.push_back(function->labels.at(name));
  }
}

/* Sets shrink until nothing changes, from the end backwards; the node after the last instruction is
 * where all leave. */
void find_joins(Function *function) {
  const size_t n = function->code.size();
  std::vector<std::vector<bool>> after(n + 1, std::vector<bool>(n + 1, true));
  after[n].assign(n + 1, false);
  after[n][n] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = n; i-- > 0;) {
      std::vector<bool> all(n + 1, true);
      for (size_t next : successors(*function, i))
        for (size_t j = 0; j <= n; j++) all[j] = all[j] && after[next][j];
      all[i] = true;
      if (all != after[i]) {
        after[i] = all;
        changed = true;
      }
    }
  }
  auto size = [&](size_t i) { return std::count(after[i].begin(), after[i].end(), true); };
  for (size_t i = 0; i < n; i++) {
    if (function->code[i].targets.empty()) continue;
    size_t nearest = n;
    for (size_t j = 0; j < n; j++) /* the nearest one has most behind it */
      if (j != i && after[i][j] && (nearest == n || size(j) > size(nearest))) nearest = j;
    function->code[i].joins = nearest;
  }
}

}  // namespace

Code parse(const std::string &text) {
  Code code = Parser(text).run();
  for (auto &entry : code.functions) {
    resolve_targets(&entry.second);
    find_joins(&entry.second);
  }
  return code;
}

}  // namespace emulator
