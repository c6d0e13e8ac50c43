# SPDX-License-Identifier: MIT
# Sets TALLYBOX_VERSION, unless -DTALLYBOX_VERSION=... does:
#   0.4                        the tag v0.4
#   0.4+12.g1a2b3c4d           12 commits after it
#   0.0~git20261126.1a2b3c4d   there is no tag yet: day (UTC) and hash of the commit
#   ...+local                  as these, with changes that are not committed
#   0.0~unknown                the sources come neither from a clone nor from `git archive`
# Versions of Debian packages sort in the order: no tag, the tag, commits after it. Also sets
# TALLYBOX_TIME to the time of the commit, in seconds since 1970, or to "".

# schema_history has the version of the program that ran a migration, in VARCHAR(32).
set(TALLYBOX_VERSION_BYTES_MAX 32)

# version_git(OUT ARGUMENT...): the answer of git, or "".
function(version_git out)
  execute_process(
    COMMAND ${GIT_EXECUTABLE} ${ARGN}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    OUTPUT_VARIABLE answer
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
    RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    set(answer "")
  endif()
  set(${out} "${answer}" PARENT_SCOPE)
endfunction()

# version_archived(OUT KEY): a value of version.txt, which `git archive` fills in, or "".
function(version_archived out key)
  file(READ ${PROJECT_SOURCE_DIR}/cmake/version.txt text)
  string(REGEX MATCH "${key}=([^\n]*)" line "${text}")
  set(answer "${CMAKE_MATCH_1}")
  if(answer MATCHES "Format:")
    set(answer "")
  endif()
  set(${out} "${answer}" PARENT_SCOPE)
endfunction()

# version_format(OUT DESCRIBE TIME HASH): the version of a commit.
function(version_format out describe time hash)
  if(describe MATCHES "^v(.+)-([0-9]+)-(g[0-9a-f]+)$")
    set(version "${CMAKE_MATCH_1}+${CMAKE_MATCH_2}.${CMAKE_MATCH_3}")
  elseif(describe MATCHES "^v(.+)$")
    set(version "${CMAKE_MATCH_1}")
  elseif(hash)
    set(ENV{SOURCE_DATE_EPOCH} ${time})
    string(TIMESTAMP day "%Y%m%d" UTC)
    set(version "0.0~git${day}.${hash}")
  else()
    set(version "0.0~unknown")
  endif()
  set(${out} "${version}" PARENT_SCOPE)
endfunction()

set(version_epoch "$ENV{SOURCE_DATE_EPOCH}")
set(version_local "")
find_package(Git QUIET)
# A folder inside the clone of something else is not asked for that one's version.
if(GIT_FOUND AND EXISTS ${PROJECT_SOURCE_DIR}/.git)
  version_git(version_describe describe --tags --match "v[0-9]*" --abbrev=8)
  version_git(TALLYBOX_TIME log -1 --format=%ct)
  version_git(version_hash log -1 --abbrev=8 --format=%h)
  version_git(version_changes diff --name-only HEAD)
  if(version_changes)
    set(version_local "+local")
  endif()
else()
  version_archived(version_describe describe)
  version_archived(TALLYBOX_TIME time)
  version_archived(version_hash hash)
endif()
if(NOT DEFINED CACHE{TALLYBOX_VERSION})
  version_format(TALLYBOX_VERSION "${version_describe}" "${TALLYBOX_TIME}" "${version_hash}")
  string(APPEND TALLYBOX_VERSION "${version_local}")
endif()
set(ENV{SOURCE_DATE_EPOCH} "${version_epoch}")

string(LENGTH "${TALLYBOX_VERSION}" version_bytes)
if(NOT TALLYBOX_VERSION MATCHES "^[0-9][0-9A-Za-z.+~]*$"
   OR version_bytes GREATER TALLYBOX_VERSION_BYTES_MAX)
  message(FATAL_ERROR "The version \"${TALLYBOX_VERSION}\" has to begin with a digit, to consist of "
                      "letters, digits and .+~, and to be at most ${TALLYBOX_VERSION_BYTES_MAX} bytes "
                      "long. It comes from the newest tag v*; -DTALLYBOX_VERSION=... sets another one.")
endif()
message(STATUS "tallybox ${TALLYBOX_VERSION}")

# A header, not a definition of each compilation: another commit makes only its users compile again.
configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in
               ${PROJECT_BINARY_DIR}/generated/tallybox_version.h @ONLY)
