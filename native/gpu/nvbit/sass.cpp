// SPDX-License-Identifier: Apache-2.0
#include "sass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <initializer_list>
#include <map>

#include "xpuprof/trace_format.h"

std::string sass_opcode(const std::string &text) {
  size_t at = text.find_first_not_of(" \t{");
  if (at != std::string::npos && text[at] == '@')
    at = text.find_first_not_of(' ', text.find(' ', at));
  if (at == std::string::npos) return "";
  return text.substr(at, text.find_first_of(" ;\t", at) - at);
}

/* IMAD.WIDE -> IMAD */
static std::string base_of(const std::string &opcode) { return opcode.substr(0, opcode.find('.')); }

static bool is_one_of(const std::string &base, std::initializer_list<const char *> list) {
  return std::any_of(list.begin(), list.end(), [&](const char *one) { return base == one; });
}

static bool starts_with(const std::string &text, const char *prefix) {
  return text.compare(0, strlen(prefix), prefix) == 0;
}

/* ---- classes of instructions ---------------------------------------------------------------- */

static bool is_control(const std::string &base) {
  return is_one_of(
      base, {"BRA",   "BRX",  "BRXU",  "JMP",  "JMX",  "JMXU", "CALL",     "RET",          "EXIT",
             "BSYNC", "BSSY", "BREAK", "KILL", "BPT",  "RTT",  "WARPSYNC", "PRET",         "SSY",
             "SYNC",  "BRK",  "PBK",   "CONT", "PCNT", "JCAL", "CAL",      "ENDCOLLECTIVE"});
}

/* Where the set of active lanes may change, or the next instruction is not the next executed. */
static bool ends_block(const std::string &base) { return is_control(base) && base != "BSSY"; }

static bool is_indirect(const std::string &base) {
  return is_one_of(base, {"BRX", "BRXU", "JMX", "JMXU"});
}

static bool is_memory(const std::string &base, int *mix) {
  static const std::map<std::string, int> classes = {
      {"LDG", XP_MIX_LOAD_GLOBAL},      {"LD", XP_MIX_LOAD_GLOBAL},
      {"LDC", XP_MIX_LOAD_GLOBAL},      {"LDCU", XP_MIX_LOAD_GLOBAL},
      {"ULDC", XP_MIX_LOAD_GLOBAL},     {"LDGSTS", XP_MIX_LOAD_GLOBAL},
      {"UBLKCP", XP_MIX_LOAD_GLOBAL},   {"UBLKPF", XP_MIX_LOAD_GLOBAL},
      {"UTMALDG", XP_MIX_LOAD_GLOBAL},  {"UTMAPF", XP_MIX_LOAD_GLOBAL},
      {"STG", XP_MIX_STORE_GLOBAL},     {"ST", XP_MIX_STORE_GLOBAL},
      {"UTMASTG", XP_MIX_STORE_GLOBAL}, {"LDS", XP_MIX_LOAD_LOCAL},
      {"LDSM", XP_MIX_LOAD_LOCAL},      {"STS", XP_MIX_STORE_LOCAL},
      {"STSM", XP_MIX_STORE_LOCAL},     {"STAS", XP_MIX_STORE_LOCAL},
      {"LDL", XP_MIX_PRIVATE},          {"STL", XP_MIX_PRIVATE},
      {"LDTM", XP_MIX_LOAD_LOCAL},      {"STTM", XP_MIX_STORE_LOCAL},
  };
  auto known = classes.find(base);
  if (known == classes.end()) return false;
  *mix = known->second;
  return true;
}

static bool is_floating(const std::string &base) {
  if (base.find("HMMA") != std::string::npos || base.find("DMMA") != std::string::npos ||
      base.find("QMMA") != std::string::npos || base.find("HGMMA") != std::string::npos ||
      base.find("QGMMA") != std::string::npos || starts_with(base, "UTCHMMA") ||
      starts_with(base, "UTCQMMA"))
    return true;
  if (is_one_of(base, {"FRND", "F2F", "F2FP"})) return true;
  return is_one_of(
      base,
      {"FADD",    "FMUL",   "FFMA",      "FMNMX",     "FSEL",      "FSET",    "FSETP",   "FCHK",
       "FSWZADD", "FADD2",  "FMUL2",     "FFMA2",     "FADD32I",   "FMUL32I", "FFMA32I", "DADD",
       "DMUL",    "DFMA",   "DSETP",     "DMNMX",     "HADD2",     "HMUL2",   "HFMA2",   "HSET2",
       "HSETP2",  "HMNMX2", "HADD2_32I", "HMUL2_32I", "HFMA2_32I", "FMNMX3",  "UFADD",   "UFMUL",
       "UFFMA",   "UFMNMX", "UFSEL",     "UFSET",     "UFSETP"});
}

static bool is_special(const std::string &base) {
  return is_one_of(base, {"MUFU", "S2R",   "S2UR",  "CS2R",  "CS2UR", "TEX",    "TLD",      "TLD4",
                          "TMML", "TXD",   "TXQ",   "SULD",  "SUST",  "SUATOM", "SURED",    "SHFL",
                          "VOTE", "VOTEU", "MATCH", "REDUX", "ELECT", "R2UR",   "NANOSLEEP"});
}

static bool is_integer(const std::string &base) {
  static const char *const prefixes[] = {
      "I",        "UI",     "LOP",    "ULOP",  "LEA",   "ULEA",  "SHF",    "USHF",  "SHL",
      "SHR",      "SEL",    "USEL",   "MOV",   "UMOV",  "PRMT",  "UPRMT",  "POPC",  "UPOPC",
      "FLO",      "UFLO",   "BREV",   "UBREV", "BMSK",  "UBMSK", "SGXT",   "USGXT", "PLOP3",
      "UPLOP3",   "P2R",    "R2P",    "UP2UR", "UR2UP", "PSETP", "UPSETP", "F2I",   "VIADD",
      "VABSDIFF", "VIMNMX", "VHMNMX", "LOP3",  "CSEL",  "BMOV",  "B2R",    "R2B",   "VIADDMNMX"};
  if (base == "IDE") return false;
  return std::any_of(std::begin(prefixes), std::end(prefixes),
                     [&](const char *prefix) { return starts_with(base, prefix); });
}

int sass_mix(const std::string &opcode) {
  std::string base = base_of(opcode);
  int mix;
  if (is_memory(base, &mix)) return mix;
  if (starts_with(base, "ATOM") || starts_with(base, "RED") || starts_with(base, "UATOM") ||
      starts_with(base, "UTMARED") || base == "CCTL")
    return base == "REDUX" ? XP_MIX_SPECIAL : base == "CCTL" ? XP_MIX_OTHER : XP_MIX_ATOMIC;
  if (is_one_of(base, {"BAR", "MEMBAR", "ERRBAR", "FENCE", "SYNCS", "WARPSYNC", "UCGABAR_ARV",
                       "UCGABAR_WAIT", "DEPBAR", "LDGDEPBAR", "ARRIVES", "WARPGROUP"}))
    return XP_MIX_BARRIER;
  if (is_control(base) || base == "BSSY") return XP_MIX_BRANCH;
  if (is_special(base)) return XP_MIX_SPECIAL;
  if (is_floating(base)) return XP_MIX_FP;
  if (is_integer(base)) return XP_MIX_INT;
  return XP_MIX_OTHER;
}

/* ---- blocks --------------------------------------------------------------------------------- */

/* Branch targets are offsets in the function; the last number is the target (a register or a
 * predicate may precede it). */
static bool target(const std::string &text, uint32_t *offset) {
  size_t at = text.rfind("0x");
  if (at == std::string::npos) return false;
  *offset = static_cast<uint32_t>(strtoul(text.c_str() + at, nullptr, 16));
  return true;
}

static std::map<uint32_t, size_t> index_of(const std::vector<SassInstruction> &code) {
  std::map<uint32_t, size_t> index;
  for (size_t i = 0; i < code.size(); i++) index[code[i].offset] = i;
  return index;
}

/* Where the instruction may lead besides to the next one; false: anywhere. */
static bool leads_to(const SassInstruction &instruction, const std::string &base,
                     const SassTargets &targets, std::vector<uint32_t> *places) {
  places->clear();
  if (is_indirect(base)) {
    auto known = targets.find(instruction.offset);
    if (known == targets.end()) return false;
    *places = known->second;
    return true;
  }
  uint32_t to;
  if (target(instruction.text, &to)) places->push_back(to);
  return true;
}

static std::vector<bool> leaders(const std::vector<SassInstruction> &code,
                                 const SassTargets &targets) {
  std::vector<bool> leads(code.size(), false);
  std::map<uint32_t, size_t> index = index_of(code);
  std::vector<uint32_t> places;
  if (!code.empty()) leads[0] = true;
  for (size_t i = 0; i < code.size(); i++) {
    std::string base = base_of(sass_opcode(code[i].text));
    if (!is_control(base)) continue;
    if (!leads_to(code[i], base, targets, &places)) return std::vector<bool>(code.size(), true);
    if (ends_block(base) && i + 1 < code.size()) leads[i + 1] = true;
    for (uint32_t to : places) {
      auto there = index.find(to); /* not found: a call into another function */
      if (there != index.end()) leads[there->second] = true;
    }
  }
  return leads;
}

std::string sass_fault(const std::vector<SassInstruction> &code, const SassTargets &targets) {
  std::map<uint32_t, size_t> index = index_of(code);
  std::vector<uint32_t> places;
  for (const SassInstruction &instruction : code) {
    std::string base = base_of(sass_opcode(instruction.text));
    if (!is_indirect(base) && base != "BRA" && base != "BSSY") continue;
    leads_to(instruction, base, targets, &places);
    for (uint32_t to : places) {
      if (index.count(to)) continue;
      char text[100];
      snprintf(text, sizeof text, "%s at 0x%x leads to 0x%x, where it has no instruction",
               base.c_str(), instruction.offset, to);
      return text;
    }
  }
  return "";
}

std::vector<SassBlock> sass_blocks(const std::vector<SassInstruction> &code,
                                   const SassTargets &targets) {
  std::vector<SassBlock> blocks;
  std::vector<bool> leads = leaders(code, targets);
  for (size_t i = 0; i < code.size(); i++) {
    if (leads[i]) blocks.push_back({static_cast<uint32_t>(i), {}});
    xpu_block &block = blocks.back().block;
    block.instructions++;
    block.mix[sass_mix(sass_opcode(code[i].text))]++;
  }
  return blocks;
}
