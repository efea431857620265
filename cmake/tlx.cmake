# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The flags shared by all targets, and `tlx_library`: one static library for each folder of src/.

add_library(tlx_flags INTERFACE)
target_include_directories(tlx_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/generated)
target_include_directories(tlx_flags SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${LLD_INCLUDE_DIRS})
separate_arguments(LLVM_DEFINITIONS_LIST NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_definitions(tlx_flags INTERFACE ${LLVM_DEFINITIONS_LIST} TLX_VERSION="${PROJECT_VERSION}")
target_compile_options(tlx_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers -Wno-dangling-pointer -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds>
  -ffunction-sections -fdata-sections)
if(TLX_VERIFY_PASSES)
  target_compile_definitions(tlx_flags INTERFACE TLX_VERIFY_PASSES=1)
endif()
if(TLX_ASAN)
  # LLVM itself is not instrumented, so its containers cross the boundary without annotations: container-overflow is off (see ./dev).
  # For the same reason objects that LLVM made fail the check of vptr, and LLVM's headers must not poison arenas that its own code uses:
  # they ask this macro. Ours asks TLX_ASAN.
  target_compile_options(tlx_flags INTERFACE -fsanitize=address,undefined -fno-sanitize=vptr -fno-omit-frame-pointer
                         -U__SANITIZE_ADDRESS__ -DTLX_ASAN)
  target_link_options(tlx_flags INTERFACE -fsanitize=address,undefined)
endif()

# Headers that most files include. LLVM's IR headers are the larger part of a compile.
add_library(tlx_pch STATIC ${CMAKE_SOURCE_DIR}/cmake/pch.cpp)
target_link_libraries(tlx_pch PUBLIC tlx_flags)
target_precompile_headers(tlx_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/pch.h)

function(tlx_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  if(sources)
    add_library(tlx_${name} STATIC ${sources})
    target_link_libraries(tlx_${name} PUBLIC tlx_flags)
    target_precompile_headers(tlx_${name} REUSE_FROM tlx_pch)
    foreach(dep ${ARG_DEPENDS})
      target_link_libraries(tlx_${name} PUBLIC tlx_${dep})
    endforeach()
  else()
    add_library(tlx_${name} INTERFACE)
    foreach(dep ${ARG_DEPENDS})
      target_link_libraries(tlx_${name} INTERFACE tlx_${dep})
    endforeach()
  endif()
endfunction()

# kernels/std/*.tlx become string constants of the library (imports work without a file system).
function(tlx_embed_kernels target)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/std/*.tlx)
  set(body "// Generated from kernels/std. Do not edit.\n#include <string_view>\n#include <utility>\nnamespace tlx {\nextern const std::pair<std::string_view, std::string_view> kEmbeddedLibrary[];\nextern const unsigned kEmbeddedLibrarySize;\nconst std::pair<std::string_view, std::string_view> kEmbeddedLibrary[] = {\n")
  foreach(file ${files})
    file(READ ${file} text)
    get_filename_component(base ${file} NAME)
    string(APPEND body "{\"std/${base}\", R\"tlx(${text})tlx\"},\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endforeach()
  list(LENGTH files count)
  if(count EQUAL 0)
    string(APPEND body "{}")
  endif()
  string(APPEND body "};\nconst unsigned kEmbeddedLibrarySize = ${count};\n}\n")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/embedded_library.cpp CONTENT "${body}" @ONLY)
  add_library(tlx_embedded STATIC ${CMAKE_BINARY_DIR}/generated/embedded_library.cpp)
  target_link_libraries(tlx_embedded PUBLIC tlx_flags)
  get_target_property(type tlx_${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    target_link_libraries(tlx_${target} INTERFACE tlx_embedded)
  else()
    target_link_libraries(tlx_${target} PUBLIC tlx_embedded)
  endif()
endfunction()

# What a final image (tool, test, shared library) needs of LLVM, lld and the system.
llvm_map_components_to_libnames(TLX_LLVM_LIBS NVPTX AMDGPU X86 OrcJIT Passes IRReader BitReader BitWriter LTO DTLTO Option)
add_library(tlx_llvm INTERFACE)
# lld by file: its imported targets name the shared libLLVM, and LLVM has to be linked statically.
target_link_libraries(tlx_llvm INTERFACE $<TARGET_FILE:lldELF> $<TARGET_FILE:lldCommon> ${TLX_LLVM_LIBS} Boost::context Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(tlx_llvm INTERFACE -Wl,--gc-sections -Wl,--build-id)
