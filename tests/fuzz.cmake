# SPDX-License-Identifier: MIT
# Fuzz targets. Everywhere they are tests that replay the files of tests/fuzz/corpus/NAME.tar.gz,
# which the build unpacks into its own folder corpus/NAME; with TALLYBOX_FUZZ
# (preset fuzz, Clang) they are fuzzers: ./dev fuzz.
option(TALLYBOX_FUZZ "Link the fuzz targets with libFuzzer" OFF)
add_custom_target(fuzz)

# tallybox_fuzz(NAME LABEL SOURCES... LINKS libraries...)
function(tallybox_fuzz name label)
  if(NOT TALLYBOX_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 2 FUZZ "" "" "LINKS")
  set(corpus ${CMAKE_CURRENT_BINARY_DIR}/corpus)
  set(archive ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/${name}.tar.gz)
  add_custom_command(
    OUTPUT ${corpus}/${name}.unpacked
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${corpus}/${name}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${corpus}/${name}
    COMMAND ${CMAKE_COMMAND} -E chdir ${corpus}/${name} ${CMAKE_COMMAND} -E tar xzf ${archive}
    COMMAND ${CMAKE_COMMAND} -E touch ${corpus}/${name}.unpacked
    DEPENDS ${archive}
    VERBATIM)
  add_executable(fuzz_${name} ${corpus}/${name}.unpacked fuzz/${name}.c fuzz/fuzz.c ${FUZZ_UNPARSED_ARGUMENTS})
  target_link_libraries(fuzz_${name} PRIVATE tallybox_flags ${FUZZ_LINKS})
  add_dependencies(fuzz fuzz_${name})
  if(TALLYBOX_FUZZ)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    return()
  endif()
  target_sources(fuzz_${name} PRIVATE fuzz/replay.c)
  add_test(NAME fuzz_${name} COMMAND fuzz_${name} ${corpus}/${name}
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(fuzz_${name} PROPERTIES LABELS ${label} TIMEOUT 120)
endfunction()

tallybox_fuzz(api unit LINKS producer dep::jansson)
tallybox_fuzz(config unit LINKS common)
tallybox_fuzz(dead unit LINKS consumer_core dep::jansson)
tallybox_fuzz(http flow LINKS common)
tallybox_fuzz(migration unit LINKS schema_core)
tallybox_fuzz(outbox_row unit LINKS outbox outbox_append dep::rdkafka)
tallybox_fuzz(retry_options unit LINKS retry_handler_core dep::curl dep::jansson)
tallybox_fuzz(vote_csv unit LINKS producer)
tallybox_fuzz(vote_event unit LINKS schema_core)
tallybox_fuzz(words unit LINKS producer_core consumer_core common dep::jansson)
