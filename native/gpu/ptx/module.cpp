// SPDX-License-Identifier: Apache-2.0
#include "module.h"

#include <ctype.h>
#include <stdlib.h>

namespace ptx {

bool Instruction::has(const char *suffix) const {
  std::string dotted = opcode + '.';
  return dotted.find(std::string(suffix) + '.') != std::string::npos;
}

namespace {

bool is_name(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }

std::string trimmed(const std::string &text) {
  size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

/* Splits at commas outside of brackets. */
std::vector<std::string> split(const std::string &text) {
  std::vector<std::string> parts;
  int depth = 0;
  size_t from = 0;
  for (size_t i = 0; i < text.size(); i++) {
    char c = text[i];
    depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
    if (c != ',' || depth) continue;
    parts.push_back(trimmed(text.substr(from, i - from)));
    from = i + 1;
  }
  std::string last = trimmed(text.substr(from));
  if (!last.empty()) parts.push_back(last);
  return parts;
}

/* Comments and strings replaced by spaces, so that no offset moves. */
std::string blanked(const std::string &text) {
  std::string out = text;
  size_t i = 0;
  auto blank_until = [&](size_t end) {
    for (; i < end && i < out.size(); i++)
      if (out[i] != '\n') out[i] = ' ';
  };
  while (i < out.size()) {
    if (out.compare(i, 2, "//") == 0) {
      blank_until(std::min(out.find('\n', i), out.size()));
    } else if (out.compare(i, 2, "/*") == 0) {
      size_t end = out.find("*/", i + 2);
      if (end == std::string::npos) throw SyntaxError("a comment does not end");
      blank_until(end + 2);
    } else if (out[i] == '"') {
      size_t end = i + 1;
      while (end < out.size() && out[end] != '"') end += out[end] == '\\' ? 2 : 1;
      blank_until(end + 1);
    } else {
      i++;
    }
  }
  return out;
}

class Parser {
 public:
  explicit Parser(const std::string &text) : text_(blanked(text)) { module_.text = text; }
  Module run();

 private:
  bool at_end() {
    at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
    return at_ == text_.size();
  }
  bool skip(const std::string &word);
  std::string name();
  std::string until(char end);
  std::string rest_of_line();
  void skip_braces();
  void variable_or_section();
  void function(size_t begin);
  void body(Function *made);
  bool label(Function *made);
  bool labelled_list(Function *made, const std::string &label);
  void directive();
  void instruction(Function *made);

  const std::string text_;
  size_t at_ = 0;
  uint32_t line_ = 0;
  Module module_ = {};
};

/* A whole word. */
bool Parser::skip(const std::string &word) {
  size_t end = at_ + word.size();
  if (text_.compare(at_, word.size(), word) != 0) return false;
  if (is_name(word.back()) && end < text_.size() && is_name(text_[end])) return false;
  at_ = end;
  return true;
}

std::string Parser::name() {
  at_end();
  size_t from = at_;
  if (at_ < text_.size() && text_[at_] == '%') at_++;
  while (at_ < text_.size() && is_name(text_[at_])) at_++;
  return text_.substr(from, at_ - from);
}

/* The text up to `end`, which is passed. */
std::string Parser::until(char end) {
  size_t from = at_, to = text_.find(end, at_);
  if (to == std::string::npos) throw SyntaxError(std::string("no '") + end + "' to the end");
  at_ = to + 1;
  return text_.substr(from, to - from);
}

std::string Parser::rest_of_line() {
  size_t from = at_;
  at_ = std::min(text_.find('\n', at_), text_.size());
  return trimmed(text_.substr(from, at_ - from));
}

void Parser::skip_braces() {
  int depth = 0;
  for (; at_ < text_.size(); at_++) {
    depth += (text_[at_] == '{') - (text_[at_] == '}');
    if (depth == 0 && text_[at_] == '}') {
      at_++;
      return;
    }
  }
  throw SyntaxError("a brace is not closed");
}

/* `.global .align 4 .b8 a[2] = {1, 2};`, or `.section .debug_line { ... }`. */
void Parser::variable_or_section() {
  size_t stop = text_.find_first_of("{;", at_);
  if (stop == std::string::npos) throw SyntaxError("a declaration does not end");
  bool section = text_.compare(at_, 8, ".section") == 0;
  at_ = stop;
  if (text_[at_] == '{') skip_braces();
  if (!section) until(';');
}

Module Parser::run() {
  while (!at_end()) {
    size_t begin = at_;
    if (skip(".version")) {
      char *minor;
      std::string line = rest_of_line();
      module_.version = 100 * static_cast<unsigned>(strtoul(line.c_str(), &minor, 10));
      if (*minor == '.') module_.version += static_cast<unsigned>(strtoul(minor + 1, nullptr, 10));
    } else if (skip(".target")) {
      std::string line = rest_of_line();
      size_t digits = line.find_first_of("0123456789");
      if (digits == std::string::npos) throw SyntaxError("its .target names no architecture");
      module_.target = static_cast<unsigned>(strtoul(line.c_str() + digits, nullptr, 10));
      module_.after_header = at_;
    } else if (skip(".address_size")) {
      module_.address_size = static_cast<unsigned>(strtoul(rest_of_line().c_str(), nullptr, 10));
      module_.after_header = at_;
    } else if (skip(".file") || skip(".loc")) {
      rest_of_line();
    } else {
      while (skip(".visible") || skip(".extern") || skip(".weak") || skip(".common")) at_end();
      if (skip(".entry") || skip(".func"))
        function(begin);
      else
        variable_or_section();
    }
  }
  if (!module_.version || !module_.target) throw SyntaxError("it has no .version or no .target");
  return module_;
}

void Parser::function(size_t begin) {
  Function made = {};
  made.begin = begin;
  made.entry = text_.compare(at_ - 6, 6, ".entry") == 0;
  at_end();
  if (text_[at_] == '(') until(')'); /* what it returns */
  made.name = name();
  if (made.name.empty()) throw SyntaxError("a function has no name");
  size_t stop = text_.find_first_of("{;", at_);
  if (stop == std::string::npos) throw SyntaxError("function " + made.name + " does not end");
  at_ = stop + 1;
  made.defined = text_[stop] == '{';
  if (made.defined) {
    made.body = at_;
    body(&made);
  }
  made.end = at_;
  module_.functions.push_back(made);
}

void Parser::body(Function *made) {
  int depth = 1;
  line_ = 0;
  while (depth) {
    if (at_end()) throw SyntaxError("the body of " + made->name + " does not end");
    if (skip("{")) {
      depth++;
    } else if (skip("}")) {
      depth--;
    } else if (text_[at_] == '.') {
      directive();
    } else if (!label(made)) {
      instruction(made);
    }
  }
}

void Parser::directive() {
  if (skip(".loc")) {
    char *second;
    std::string line = rest_of_line();
    strtoul(line.c_str(), &second, 10);
    line_ = static_cast<uint32_t>(strtoul(second, nullptr, 10));
  } else if (skip(".file")) {
    rest_of_line();
  } else {
    variable_or_section();
  }
}

/* Also the lists that have a label: `ts: .branchtargets a, b;`. */
bool Parser::label(Function *made) {
  size_t from = at_;
  std::string found = name();
  at_end();
  if (found.empty() || text_.compare(at_, 1, ":") != 0 || text_.compare(at_, 2, "::") == 0) {
    at_ = from;
    return false;
  }
  at_++;
  at_end();
  if (labelled_list(made, found)) return true;
  if (!made->first_statement) made->first_statement = from;
  made->labels[found] = made->code.size();
  return true;
}

bool Parser::labelled_list(Function *made, const std::string &label) {
  if (skip(".branchtargets"))
    made->target_lists[label] = split(until(';'));
  else if (skip(".calltargets") || skip(".callprototype"))
    until(';');
  else
    return false;
  return true;
}

void Parser::instruction(Function *made) {
  Instruction found = {};
  found.begin = at_;
  found.line = line_;
  if (!made->first_statement) made->first_statement = at_;
  if (skip("@")) {
    at_end();
    if (skip("!")) found.guard = "!";
    found.guard += name();
    at_end();
  }
  size_t opcode = at_;
  while (at_ < text_.size() && (is_name(text_[at_]) || text_[at_] == '.' || text_[at_] == ':'))
    at_++;
  found.opcode = text_.substr(opcode, at_ - opcode);
  if (found.opcode.empty()) throw SyntaxError("an instruction of " + made->name + " has no name");
  found.operands = split(until(';'));
  found.end = at_;
  made->code.push_back(found);
}

}  // namespace

Module parse(const std::string &text) { return Parser(text).run(); }

}  // namespace ptx
