# SPDX-License-Identifier: MIT
# The libraries we stand on, as dep::<name>. One place knows how each is found.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

function(dep name)
  pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${ARGN})
  add_library(dep::${name} ALIAS PkgConfig::${name})
endfunction()

dep(jansson jansson>=2.11)
dep(microhttpd libmicrohttpd>=0.9.71)
dep(inih inih)
dep(curl libcurl>=7.66)
dep(zlib zlib)
dep(zstd libzstd>=1.4)
dep(crypto libcrypto)
if(TALLYBOX_TESTS)
  dep(cmocka cmocka>=1.1.5)
endif()

# The static librdkafka of `./dev` comes with its own file; a packaged one is linked as it is.
pkg_check_modules(rdkafka_static QUIET IMPORTED_TARGET rdkafka-static>=2.0)
# TALLYBOX_RDKAFKA_ARCHIVE: the static library, or ""; TALLYBOX_RDKAFKA_LICENSES: the texts of its
# licences. TALLYBOX_RDKAFKA_PACKAGES: the names by which pkg-config finds what it needs.
if(rdkafka_static_FOUND)
  add_library(dep::rdkafka ALIAS PkgConfig::rdkafka_static)
  find_library(TALLYBOX_RDKAFKA_ARCHIVE librdkafka.a PATHS ${rdkafka_static_LIBRARY_DIRS} REQUIRED
               NO_DEFAULT_PATH)
  find_file(TALLYBOX_RDKAFKA_LICENSES NAMES LICENSES.txt copyright NO_DEFAULT_PATH
            PATHS ${rdkafka_static_PREFIX}/share/licenses/librdkafka /usr/share/doc/librdkafka-dev)
  execute_process(COMMAND ${PKG_CONFIG_EXECUTABLE} --print-requires rdkafka-static
                  OUTPUT_VARIABLE TALLYBOX_RDKAFKA_PACKAGES COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[a-z][^ \n]*" TALLYBOX_RDKAFKA_PACKAGES "${TALLYBOX_RDKAFKA_PACKAGES}")
  message(STATUS "librdkafka: ${rdkafka_static_VERSION}, static, ${rdkafka_static_PREFIX}")
else()
  dep(rdkafka rdkafka>=2.0)
  set(TALLYBOX_RDKAFKA_ARCHIVE "")
  set(TALLYBOX_RDKAFKA_PACKAGES rdkafka)
  message(STATUS "librdkafka: ${rdkafka_VERSION}, shared")
endif()

# One code for both client libraries; Oracle's is preferred where both are there, because it knows
# every login method of newer MySQL servers.
set(clients mysqlclient libmariadb)
if(NOT TALLYBOX_MYSQL_CLIENT STREQUAL "auto")
  set(clients ${TALLYBOX_MYSQL_CLIENT})
endif()
foreach(client IN LISTS clients)
  if(NOT TARGET dep::mysql)
    pkg_check_modules(${client} QUIET IMPORTED_TARGET ${client})
    if(${client}_FOUND)
      add_library(dep::mysql ALIAS PkgConfig::${client})
      set(TALLYBOX_MYSQL_PACKAGE ${client})
      message(STATUS "MySQL client: ${client} ${${client}_VERSION}")
    endif()
  endif()
endforeach()
if(NOT TARGET dep::mysql)
  message(FATAL_ERROR "no MySQL client library found (looked for: ${clients}); "
                      "install libmariadb-dev or libmysqlclient-dev")
endif()

# What common/db/binlog_link.c needs of MariaDB's library is in its headers, but not in its manual.
if(TALLYBOX_MYSQL_PACKAGE STREQUAL "libmariadb")
  set(CMAKE_REQUIRED_LIBRARIES PkgConfig::libmariadb)
  # Asked again after an upgrade.
  set(streams TALLYBOX_STREAMS_2_${libmariadb_VERSION})
  check_c_source_compiles(
    "#include <mysql.h>
     #include <ma_pvio.h>
     int main(void)
     {
         MYSQL *mysql = mysql_init(0);
         if (mysql->methods->db_command(mysql, (enum enum_server_command)18, \"\", 0, 1, 0) != 0)
             return 1;
         if (mysql->net.pvio->cache + mysql->net.pvio->cache_size > mysql->net.pvio->cache_pos)
             return 2;
         return mysql_net_read_packet(mysql) == packet_error || mysql->net.read_pos == 0;
     }"
    ${streams})
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(NOT ${${streams}})
    message(FATAL_ERROR "libmariadb ${libmariadb_VERSION} cannot stream the binary log: "
                        "db_command, mysql_net_read_packet or pvio is not what 3.3 has")
  endif()
endif()
