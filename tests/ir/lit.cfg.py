# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# IR tests: text through tlx-opt, checked by FileCheck. CMake passes the folders of tlx-opt and of FileCheck.
import os
import lit.formats

config.name = "ir"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".ir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(lit_config.params["build"], "tests", "ir-lit")
tools = [lit_config.params["build"], lit_config.params["llvm_tools"]]
config.environment["PATH"] = os.pathsep.join(tools + [config.environment.get("PATH", "")])
config.substitutions.append(("%docs", os.path.join(config.test_source_root, "..", "..", "docs")))
