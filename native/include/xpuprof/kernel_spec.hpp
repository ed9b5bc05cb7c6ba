/* SPDX-License-Identifier: Apache-2.0 */
/* Which launches are instrumented: the kernel specification of `--kernels`, handed to GPU engines
 * in XPUPROF_KERNELS. This is the one implementation of its meaning, documented in docs/filters.md;
 * the launcher refuses what does not parse (engines/filter_grammar.py).
 *
 *   spec  = term {"," term}          a launch is chosen when any term chooses it; a comma in
 *                                    brackets does not separate
 *   term  = range | regex | range "@" regex
 *   range = N | N "-" M | N "-" | "-" M      1-based, both ends included
 *
 * A bare range counts the launches of the process. With a regex (ECMAScript, which must match the
 * whole name) it counts each kernel's own calls: `2-8@gemm.*` is the second to the eighth call of
 * every kernel whose name begins with gemm. An empty specification chooses every launch. */
#ifndef XPUPROF_KERNEL_SPEC_HPP
#define XPUPROF_KERNEL_SPEC_HPP
#include <stdint.h>
#include <string.h>

#include <map>
#include <regex>
#include <string>
#include <vector>

#define XPU_ENV_KERNELS "XPUPROF_KERNELS"

class KernelSpec {
 public:
  /* False, with `why`, when the specification is malformed (the launcher checks it before). */
  bool parse(const std::string &text, std::string *why) {
    terms_.clear();
    by_name_.clear();
    for (size_t at = 0; at < text.size();) {
      size_t end = end_of_term(text, at);
      Term term;
      if (!parse_term(text.substr(at, end - at), &term, why)) return false;
      terms_.push_back(term);
      at = end + 1;
    }
    return true;
  }
  /* `launch`: launch of the process, `call`: call of this kernel; both 1-based. */
  bool chooses(const std::string &kernel, uint64_t launch, uint64_t call) const {
    if (terms_.empty()) return true;
    for (const Term *term : terms_for(kernel)) {
      uint64_t n = term->has_name ? call : launch;
      if (n >= term->first && n <= term->last) return true;
    }
    return false;
  }

 private:
  struct Term {
    uint64_t first = 1, last = UINT64_MAX;
    bool has_name = false;
    std::regex name;
  };

  /* Matching a name is slow compared with a launch, so each name is matched once. */
  const std::vector<const Term *> &terms_for(const std::string &kernel) const {
    auto known = by_name_.find(kernel);
    if (known != by_name_.end()) return known->second;
    std::vector<const Term *> &found = by_name_[kernel];
    for (const Term &term : terms_)
      if (!term.has_name || std::regex_match(kernel, term.name)) found.push_back(&term);
    return found;
  }

  static bool parse_range(const std::string &text, Term *term) {
    size_t dash = text.find('-');
    std::string first = text.substr(0, dash);
    std::string last = dash == std::string::npos ? first : text.substr(dash + 1);
    auto is_number = [](const std::string &s) {
      return s.size() < 19 && s.find_first_not_of("0123456789") == std::string::npos;
    };
    if (text.empty() || text == "-" || !is_number(first) || !is_number(last)) return false;
    if (!first.empty()) term->first = std::stoull(first);
    if (!last.empty()) term->last = std::stoull(last);
    return term->first >= 1 && term->first <= term->last;
  }

  static bool parse_term(const std::string &text, Term *term, std::string *why) {
    size_t at = text.find('@');
    bool only_range = text.find_first_not_of("0123456789-") == std::string::npos;
    std::string range = only_range ? text : at == std::string::npos ? "" : text.substr(0, at);
    std::string name = only_range ? "" : at == std::string::npos ? text : text.substr(at + 1);
    if ((!range.empty() && !parse_range(range, term)) || (range.empty() && name.empty()) ||
        (!only_range && (name.empty() || at == 0))) {
      *why = "'" + text + "' is neither a range of numbers from 1, nor a name, nor RANGE@NAME";
      return false;
    }
    if (name.empty()) return true;
    try {
      term->name = expression(name);
      term->has_name = true;
    } catch (const std::regex_error &) {
      *why = "'" + name + "' is not a regular expression";
      return false;
    }
    return true;
  }

  /* The program waits while a name is matched, so the time must not grow exponentially. Back
   * references are the exception: the library has no other way. */
  static std::regex expression(const std::string &text) {
    if (has_large_number(text)) throw std::regex_error(std::regex_constants::error_badbrace);
#ifdef __GLIBCXX__
    try {
      return std::regex(text, std::regex::ECMAScript | std::regex_constants::__polynomial);
    } catch (const std::regex_error &error) {
      if (error.code() != std::regex_constants::error_complexity) throw;
    }
#endif
    return std::regex(text);
  }

  /* Whether a repeat count or a back reference exceeds 1000: large numbers overflow in the library,
   * which also stores one copy of a repeated part per count. */
  static bool has_large_number(const std::string &text) {
    bool in_set = false, in_number = false;
    unsigned number = 0;
    for (size_t at = 0; at < text.size(); at++) {
      char c = text[at];
      bool escaped = c == '\\' && at + 1 < text.size();
      if (escaped) c = text[++at];
      if ((in_number || escaped) && c >= '0' && c <= '9') {
        in_number = true;
        number = escaped ? c - '0' : number * 10 + (c - '0');
        if (number > 1000) return true;
        continue;
      }
      number = 0;
      in_number = !in_set && !escaped && (c == '{' || (in_number && c == ','));
      if (!escaped) in_set = in_set ? c != ']' : c == '[';
    }
    return false;
  }

  /* Where the term that starts at `at` ends. A comma in brackets is not a separator: names have
   * argument lists, regular expressions have {2,3}. */
  static size_t end_of_term(const std::string &text, size_t at) {
    int depth = 0;
    for (; at < text.size(); at++) {
      if (strchr("([{", text[at])) depth++;
      if (strchr(")]}", text[at])) depth--;
      if (text[at] == ',' && depth <= 0) break;
    }
    return at;
  }

  std::vector<Term> terms_;
  mutable std::map<std::string, std::vector<const Term *>> by_name_;
};

/* The specification and the launches counted so far. Callers lock. */
class KernelFilter {
 public:
  bool parse(const std::string &text, std::string *why) { return spec_.parse(text, why); }
  /* Whether the process's next launch, if of `kernel`, would be chosen. */
  bool chooses_next(const std::string &kernel) const {
    auto called = calls_.find(kernel);
    return spec_.chooses(kernel, launches_ + 1, called == calls_.end() ? 1 : called->second + 1);
  }
  void launched(const std::string &kernel) {
    calls_[kernel]++;
    launches_++;
  }
  /* The driver refused a launch already counted. */
  void take_back(const std::string &kernel) {
    launches_--;
    calls_[kernel]--;
  }
  /* Called in a forked child, which counts its own launches. */
  void forget() {
    launches_ = 0;
    calls_.clear();
  }

 private:
  KernelSpec spec_;
  uint64_t launches_ = 0;
  std::map<std::string, uint64_t> calls_;
};

#endif
