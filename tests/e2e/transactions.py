# SPDX-License-Identifier: MIT
"""A producer with transactions, through the librdkafka that kcat brings along (kcat itself makes
none)."""

import ctypes
import ctypes.util

SIZE = 512
WAIT_MS = 60000


def _library():
    name = ctypes.util.find_library("rdkafka") or "librdkafka.so.1"
    library = ctypes.CDLL(name)
    for function, result, arguments in (
            ("rd_kafka_conf_new", ctypes.c_void_p, ()),
            ("rd_kafka_conf_set", ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p,
                                                 ctypes.c_char_p, ctypes.c_size_t)),
            ("rd_kafka_new", ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p,
                                               ctypes.c_size_t)),
            ("rd_kafka_destroy", None, (ctypes.c_void_p,)),
            ("rd_kafka_topic_new", ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p,
                                                     ctypes.c_void_p)),
            ("rd_kafka_topic_destroy", None, (ctypes.c_void_p,)),
            ("rd_kafka_produce", ctypes.c_int, (ctypes.c_void_p, ctypes.c_int32, ctypes.c_int,
                                                ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p,
                                                ctypes.c_size_t, ctypes.c_void_p)),
            ("rd_kafka_flush", ctypes.c_int, (ctypes.c_void_p, ctypes.c_int)),
            ("rd_kafka_init_transactions", ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int)),
            ("rd_kafka_begin_transaction", ctypes.c_void_p, (ctypes.c_void_p,)),
            ("rd_kafka_commit_transaction", ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int)),
            ("rd_kafka_abort_transaction", ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int)),
            ("rd_kafka_error_string", ctypes.c_char_p, (ctypes.c_void_p,))):
        getattr(library, function).restype = result
        getattr(library, function).argtypes = arguments
    return library


class Producer:
    """with Producer(bootstrap, topic, name) as producer: producer.transaction([(key, value), ...])"""

    def __init__(self, bootstrap, topic, name):
        self.library = _library()
        text = ctypes.create_string_buffer(SIZE)
        conf = self.library.rd_kafka_conf_new()
        for key, value in (("bootstrap.servers", bootstrap), ("transactional.id", name)):
            if self.library.rd_kafka_conf_set(conf, key.encode(), value.encode(), text, SIZE):
                raise AssertionError(text.value.decode())
        self.kafka = self.library.rd_kafka_new(0, conf, text, SIZE)
        if not self.kafka:
            raise AssertionError(text.value.decode())
        self.topic = self.library.rd_kafka_topic_new(self.kafka, topic.encode(), None)
        self._check(self.library.rd_kafka_init_transactions(self.kafka, WAIT_MS))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.library.rd_kafka_topic_destroy(self.topic)
        self.library.rd_kafka_destroy(self.kafka)

    def _check(self, error):
        if error:
            raise AssertionError(self.library.rd_kafka_error_string(error).decode())

    def begin(self):
        self._check(self.library.rd_kafka_begin_transaction(self.kafka))

    def send(self, records, partition=0):
        """Records of a transaction; they are with the broker when this returns."""
        for key, value in records:
            copy = 2  # RD_KAFKA_MSG_F_COPY
            if self.library.rd_kafka_produce(self.topic, partition, copy, value, len(value), key,
                                             len(key), None):
                raise AssertionError("a record was not taken")
        if self.library.rd_kafka_flush(self.kafka, WAIT_MS):
            raise AssertionError("the broker did not take all records")

    def end(self, commit=True):
        end = (self.library.rd_kafka_commit_transaction if commit
               else self.library.rd_kafka_abort_transaction)
        self._check(end(self.kafka, WAIT_MS))

    def transaction(self, records, commit=True, partition=0):
        self.begin()
        self.send(records, partition)
        self.end(commit)
