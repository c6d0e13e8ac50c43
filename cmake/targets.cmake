# SPDX-License-Identifier: MIT
# How everything of ours is compiled, and how a test is made.
include(CheckCSourceCompiles)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

add_library(tallybox_flags INTERFACE)
target_include_directories(tallybox_flags INTERFACE ${PROJECT_SOURCE_DIR}
                                                    ${PROJECT_BINARY_DIR}/generated)
target_compile_definitions(tallybox_flags INTERFACE _POSIX_C_SOURCE=200809L)
target_compile_options(
  tallybox_flags
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wshadow
            -Wconversion
            -Wstrict-prototypes
            -Wmissing-prototypes
            -Wpointer-arith
            -Wcast-qual
            -Wwrite-strings
            -Wformat=2
            -Wundef
            -Wvla
            -Wswitch-enum
            $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>
            -fno-common
            -UNDEBUG # asserts stay on in release
            -fstack-protector-strong
            # Asserts name files: not where this clone is, so that a release has the same bytes wherever
            # it is built. Only there, because clones whose commands differ cannot share a cache.
            $<$<CONFIG:Release>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)
target_link_libraries(tallybox_flags INTERFACE Threads::Threads)
if(TALLYBOX_WERROR)
  target_compile_options(tallybox_flags INTERFACE -Werror)
endif()
if(TALLYBOX_SANITIZE)
  target_compile_options(tallybox_flags INTERFACE -fsanitize=${TALLYBOX_SANITIZE} -fno-omit-frame-pointer
                                         -fno-sanitize-recover=all)
  target_link_options(tallybox_flags INTERFACE -fsanitize=${TALLYBOX_SANITIZE})
else()
  # scripts/hardened reads from the program whether all of it is there.
  set(CMAKE_REQUIRED_FLAGS "-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
  check_c_source_compiles("#include <string.h>\nint main(void) { return 0; }" TALLYBOX_FORTIFY_3
                          FAIL_REGEX "FORTIFY")
  unset(CMAKE_REQUIRED_FLAGS)
  target_compile_options(
    tallybox_flags
    INTERFACE -U_FORTIFY_SOURCE
              $<$<CONFIG:Release,RelWithDebInfo>:-D_FORTIFY_SOURCE=$<IF:$<BOOL:${TALLYBOX_FORTIFY_3}>,3,2>>
              -fstack-clash-protection)
  target_link_options(tallybox_flags INTERFACE LINKER:-z,relro,-z,now,-z,noexecstack)
endif()

# tallybox_library(NAME SOURCES... LINKS libraries...): one static library of a component.
function(tallybox_library name)
  cmake_parse_arguments(PARSE_ARGV 1 LIB "" "" "LINKS")
  add_library(${name} STATIC ${LIB_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC ${LIB_LINKS} PRIVATE tallybox_flags)
endfunction()

# tallybox_test(NAME LABEL SOURCES... LINKS libraries...): a cmocka program run by ctest.
# LABEL: unit (no I/O) or flow (fakes and the in-process broker).
function(tallybox_test name label)
  if(NOT TALLYBOX_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 2 TEST "" "" "LINKS")
  add_executable(${name} ${TEST_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE tallybox_flags ${TEST_LINKS} dep::cmocka)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  # Against tests that hang; one that only computes may share its core with many others.
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 600)
endfunction()
