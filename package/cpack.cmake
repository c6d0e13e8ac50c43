# SPDX-License-Identifier: MIT
# The Debian packages: tallybox, and libtallybox-dev for C applications. `./dev package` sets the prefix
# and the folders that Debian has, and runs cpack.
set(TALLYBOX_MAINTAINER "the tallybox authors <tallybox@example.org>"
    CACHE STRING "Maintainer of the packages, with an address that reads mail")

# debian_document(OUT NAME TEXT): a file of the package in the build folder.
function(debian_document out name text)
  set(path ${CMAKE_CURRENT_BINARY_DIR}/debian/${name})
  file(WRITE ${path}.new "${text}")
  file(COPY_FILE ${path}.new ${path} ONLY_IF_DIFFERENT)
  set(${out} ${path} PARENT_SCOPE)
endfunction()

# The text as lines of a field: each begins with a blank, and a dot stands for an empty one.
function(debian_field out text)
  string(STRIP "${text}" text)
  string(REGEX REPLACE "[ \t\r]+\n" "\n" text "${text}")
  string(REGEX REPLACE "\n" "\n " text " ${text}")
  string(REGEX REPLACE "\n \n" "\n .\n" text "${text}")
  string(REGEX REPLACE "\n \n" "\n .\n" text "${text}")
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

file(READ ${PROJECT_SOURCE_DIR}/LICENSE license)
string(REGEX REPLACE "^[^\n]*\n+Copyright [^\n]*\n+" "" license "${license}")
debian_field(PACKAGE_LICENSE "${license}")
set(PACKAGE_STATIC "")
set(PACKAGE_LINKAGE "It uses the packaged librdkafka.")
if(TALLYBOX_RDKAFKA_ARCHIVE)
  file(READ ${TALLYBOX_RDKAFKA_LICENSES} license)
  # Debian has this one in /usr/share/common-licenses.
  string(FIND "${license}" "LICENSE.opentelemetry" begin)
  if(begin GREATER -1)
    string(SUBSTRING "${license}" ${begin} -1 after)
    string(FIND "${after}" "\nLICENSE." length)
    string(SUBSTRING "${license}" 0 ${begin} before)
    string(SUBSTRING "${after}" ${length} -1 after)
    string(CONCAT license "${before}" "LICENSE.opentelemetry\n"
           "--------------------------------------------------------------\n"
           "Apache License, Version 2.0; see /usr/share/common-licenses/Apache-2.0.\n" "${after}")
  endif()
  debian_field(PACKAGE_RDKAFKA_LICENSES "${license}")
  set(PACKAGE_RDKAFKA_VERSION ${rdkafka_static_VERSION})
  configure_file(debian/copyright-librdkafka.in debian/copyright-librdkafka @ONLY)
  file(READ ${CMAKE_CURRENT_BINARY_DIR}/debian/copyright-librdkafka PACKAGE_STATIC)
  string(CONCAT PACKAGE_LINKAGE
         "librdkafka ${rdkafka_static_VERSION} (BSD-2-Clause) is linked statically, because the one "
         "of\nDebian 12 has faults that concern tallybox. Security updates of librdkafka\ncome with "
         "this package.")
endif()
configure_file(debian/copyright.in debian/copyright @ONLY)
include(changelog.cmake)
changelog_text(text)
debian_document(changelog changelog "${text}")
set(compressed ${CMAKE_CURRENT_BINARY_DIR}/debian/changelog.gz)
add_custom_command(
  OUTPUT ${compressed}
  COMMAND ${CMAKE_COMMAND} -E copy ${changelog} ${compressed}.new
  COMMAND gzip -9 --no-name --force --suffix=.gz ${compressed}.new
  COMMAND ${CMAKE_COMMAND} -E rename ${compressed}.new.gz ${compressed}
  DEPENDS ${changelog}
  VERBATIM)
add_custom_target(package_changelog ALL DEPENDS ${compressed})

# Debian looks for these by the name of the package.
foreach(pair program:tallybox development:libtallybox-dev)
  string(REPLACE ":" ";" pair ${pair})
  list(POP_FRONT pair component)
  set(folder ${CMAKE_INSTALL_DATADIR}/doc/${pair})
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/debian/copyright ${compressed} DESTINATION ${folder}
          COMPONENT ${component})
endforeach()
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  install(FILES debian/lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides
          COMPONENT program RENAME tallybox)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tallybox)
set(CPACK_PACKAGE_VERSION ${TALLYBOX_VERSION})
set(CPACK_PACKAGE_CONTACT "${TALLYBOX_MAINTAINER}")
# Each package has its own.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
# Some files are outside the prefix.
set(CPACK_SET_DESTDIR ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
                                                GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SOURCE tallybox)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME tallybox)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS
    "systemd | systemd-standalone-sysusers | systemd-sysusers, tzdata")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "default-mysql-client | virtual-mysql-client, kcat")
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION
    "transactional outbox, retry queue and vote log for MySQL and Kafka
tallybox publishes the events that applications insert into a table of
MySQL or MariaDB to Apache Kafka. It loses none and keeps the order of each
key while any process is killed. Events that Kafka or another system refuses
wait in a durable retry queue, which also calls webhooks and programs. A
pipeline for votes (likes) writes an insert-only log with running totals.
.
${PACKAGE_LINKAGE}")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA
    ${CMAKE_CURRENT_SOURCE_DIR}/debian/conffiles ${CMAKE_CURRENT_SOURCE_DIR}/debian/postinst
    ${CMAKE_CURRENT_SOURCE_DIR}/debian/postrm ${CMAKE_CURRENT_SOURCE_DIR}/debian/prerm)

# What `pkg-config --print-requires tallybox-main` names, by package.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtallybox-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "libmariadb-dev, libcurl4-openssl-dev, libjansson-dev, libssl-dev, libmicrohttpd-dev, \
libinih-dev, zlib1g-dev")
if(TALLYBOX_RDKAFKA_ARCHIVE)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", libsasl2-dev, libzstd-dev, liblz4-dev")
else()
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", librdkafka-dev")
endif()
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
    "C library for the outbox and the retry queue of tallybox
libtallybox appends events and tasks in the transaction of an application,
and reports tasks over HTTP. libtallybox-main is tallybox as a library, for
programs with handlers of their own. Both are static, with headers and files
for pkg-config.
.
${PACKAGE_LINKAGE}")
include(CPack)
