# SPDX-License-Identifier: MIT
# The changelog of the Debian packages: an entry for this version and one for each tag v* before it, with
# the subject of the tag.

# changelog_entry(OUT VERSION SUBJECT DATE)
function(changelog_entry out version subject date)
  set(${out} "tallybox (${version}) unstable; urgency=medium\n\n  * ${subject}\n\n \
-- ${TALLYBOX_MAINTAINER}  ${date}\n" PARENT_SCOPE)
endfunction()

function(changelog_text out)
  set(epoch "$ENV{SOURCE_DATE_EPOCH}")
  set(ENV{SOURCE_DATE_EPOCH} "${TALLYBOX_TIME}")
  string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
  set(ENV{SOURCE_DATE_EPOCH} "${epoch}")
  set(tags "")
  if(GIT_FOUND AND EXISTS ${PROJECT_SOURCE_DIR}/.git)
    version_git(tags for-each-ref --merged HEAD --sort=-creatordate
                "--format=%(refname:short)|%(contents:subject)|%(creatordate:rfc2822)" "refs/tags/v[0-9]*")
    string(REPLACE ";" "," tags "${tags}")
    string(REPLACE "\n" ";" tags "${tags}")
  endif()
  set(text "")
  if(NOT tags MATCHES "^v${TALLYBOX_VERSION}\\|")
    changelog_entry(text ${TALLYBOX_VERSION} "A build of commit ${version_hash}." "${now}")
  endif()
  foreach(tag IN LISTS tags)
    if(tag MATCHES "^v([^|]+)\\|(.*)\\|([^|]+)$")
      changelog_entry(entry "${CMAKE_MATCH_1}" "${CMAKE_MATCH_2}" "${CMAKE_MATCH_3}")
      if(text)
        string(APPEND text "\n")
      endif()
      string(APPEND text "${entry}")
    endif()
  endforeach()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()
