# SPDX-License-Identifier: MIT
# Writes the migrations as a C file: their bytes, versions, sides and SHA-256, all taken from the
# files; and the bytes of grants.sql. cmake -DFOLDER=schema/migrate -DFILES=0001_outbox.sql,... -DOUTPUT=migrations.c -P embed.cmake
cmake_minimum_required(VERSION 3.25)

string(REPLACE "," ";" FILES "${FILES}")

# A file that lies there and is not listed would be missed without a word.
file(GLOB present RELATIVE "${FOLDER}" "${FOLDER}/[0-9]*.sql")
foreach(name IN LISTS present)
  if(NOT name IN_LIST FILES)
    message(FATAL_ERROR "schema/migrate/${name} is not listed in schema/CMakeLists.txt")
  endif()
endforeach()

function(bytes_of path identifier variable)
  file(READ "${path}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REPEAT "....." 16 line)
  string(REGEX REPLACE "(${line})" "\\1\n    " bytes "${bytes}")
  set(${variable} "static const unsigned char ${identifier}[] = {\n    ${bytes}\n};\n\n"
      PARENT_SCOPE)
endfunction()

set(arrays "")
set(entries "")
set(versions "")
foreach(name IN LISTS FILES)
  if(NOT name MATCHES "^([0-9][0-9][0-9][0-9])_([a-z0-9_]+)[.]sql$")
    message(FATAL_ERROR "schema/migrate/${name}: a migration is named NNNN_name.sql")
  endif()
  math(EXPR version "1${CMAKE_MATCH_1} - 10000")
  set(identifier "sql_${CMAKE_MATCH_1}")
  if(version IN_LIST versions)
    message(FATAL_ERROR "schema/migrate/${name}: there is another version ${version}")
  endif()
  list(APPEND versions ${version})

  file(STRINGS "${FOLDER}/${name}" first LIMIT_COUNT 1)
  if(NOT first MATCHES "^-- side: (outbox|votes|sink)$")
    message(FATAL_ERROR
            "schema/migrate/${name}: the first line is not `-- side: outbox`, `-- side: votes` or `-- side: sink`")
  endif()
  string(TOUPPER "${CMAKE_MATCH_1}" side)
  file(SHA256 "${FOLDER}/${name}" sha256)
  string(REGEX REPLACE "[.]sql$" "" title "${name}")

  bytes_of("${FOLDER}/${name}" ${identifier} array)
  string(APPEND arrays "${array}")
  string(APPEND entries "    {${version}, \"${title}\", MIGRATION_${side}, \"${sha256}\", "
                        "${identifier},\n     sizeof(${identifier})},\n")
endforeach()
bytes_of("${FOLDER}/schema_history.sql" history array)
bytes_of("${FOLDER}/grants.sql" grants_sql grants)
string(REPLACE "static const" "const" grants "${grants}")
list(LENGTH FILES count)

file(WRITE "${OUTPUT}" "/* SPDX-License-Identifier: MIT */
/* Made by schema/migrate/embed.cmake; edit the .sql files. */
#include \"schema/migrate/grants.h\"
#include \"schema/migrate/migration.h\"

${grants}const size_t grants_sql_len = sizeof(grants_sql);

${arrays}${array}static const struct migration list[] = {
${entries}};

const struct migration_set migration_set_ours = {list, ${count}, history, sizeof(history)};
")
