# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Apache Kafka's jars, by Maven with its own settings and sources.

KAFKA_VERSION=4.1.0

kafka_pom() {
    cat <<END
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tallybox</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>$KAFKA_VERSION</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId>
      <version>$KAFKA_VERSION</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId>
      <version>2.24.3</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
      <version>2.24.3</version></dependency>
  </dependencies>
</project>
END
}

kafka_make() {
    local out=$1
    command -v mvn >/dev/null || {
        say "Kafka's jars need mvn: install the Debian package maven"
        return 1
    }
    step "fetching Kafka $KAFKA_VERSION, about 60 MB (once)"
    kafka_pom >"$out/pom.xml"
    quietly mvn -B -q -f "$out/pom.xml" dependency:copy-dependencies \
        -DoutputDirectory="$out/libs" || {
        say "Maven cannot fetch Kafka $KAFKA_VERSION: is the network up, and ~/.m2/settings.xml right?"
        return 1
    }
    compgen -G "$out/libs/kafka_2.13-*.jar" >/dev/null || {
        say "Maven fetched no Kafka jar"
        return 1
    }
}

kafka_part() { echo "kafka-$KAFKA_VERSION-1"; }

kafka_home() { cache_part "$(kafka_part)" kafka_make; }
