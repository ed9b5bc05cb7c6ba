// SPDX-License-Identifier: Apache-2.0
#ifndef XPUPROF_CLINST_BUILD_NATIVELY_H
#define XPUPROF_CLINST_BUILD_NATIVELY_H

#include <string>
#include <vector>

namespace clinst {

// Gives a request with CLINST_BUILD to xpuprof-clbuild, which lies beside this program, and waits
// for its end. Returns the file that holds the compiled kernel, or nothing: then the application
// compiles the kernel itself.
std::vector<std::string> build_natively(const std::string &request);

}  // namespace clinst
#endif
