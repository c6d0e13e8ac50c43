# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Debezium's connectors and the Kafka Connect they run in: the peer of ./dev bench peers.

DEBEZIUM_VERSION=3.4.0.Final
DEBEZIUM_MARIADB_CLIENT=3.5.3

debezium_pom() {
    cat <<END
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tallybox</groupId><artifactId>debezium</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>io.debezium</groupId><artifactId>debezium-connector-mariadb</artifactId>
      <version>$DEBEZIUM_VERSION</version></dependency>
    <dependency><groupId>io.debezium</groupId><artifactId>debezium-connector-mysql</artifactId>
      <version>$DEBEZIUM_VERSION</version></dependency>
    <dependency><groupId>io.debezium</groupId><artifactId>debezium-connector-jdbc</artifactId>
      <version>$DEBEZIUM_VERSION</version></dependency>
    <dependency><groupId>org.mariadb.jdbc</groupId><artifactId>mariadb-java-client</artifactId>
      <version>$DEBEZIUM_MARIADB_CLIENT</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>connect-runtime</artifactId>
      <version>$KAFKA_VERSION</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId>
      <version>2.24.3</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
      <version>2.24.3</version></dependency>
  </dependencies>
</project>
END
}

debezium_make() {
    local out=$1
    command -v mvn >/dev/null || {
        say "Debezium's jars need mvn: install the Debian package maven"
        return 1
    }
    step "fetching Debezium $DEBEZIUM_VERSION, about 150 MB (once)"
    debezium_pom >"$out/pom.xml"
    quietly mvn -B -q -f "$out/pom.xml" dependency:copy-dependencies \
        -DoutputDirectory="$out/libs" || {
        say "Maven cannot fetch Debezium $DEBEZIUM_VERSION: is the network up, and ~/.m2/settings.xml right?"
        return 1
    }
    compgen -G "$out/libs/debezium-connector-jdbc-*.jar" >/dev/null || {
        say "Maven fetched no Debezium jar"
        return 1
    }
}

debezium_home() { cache_part "debezium-$DEBEZIUM_VERSION-1" debezium_make; }
