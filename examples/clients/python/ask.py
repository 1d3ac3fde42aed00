"""Asks a host of livestate: python ask.py grpc://localhost:8815 "SELECT 1 AS one"."""

import os
import sys

from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_flightsql.dbapi import connect

token = os.environ.get("LIVESTATE_TOKEN")
options = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {token}"} if token else {}
with connect(sys.argv[1], db_kwargs=options, autocommit=True) as connection, connection.cursor() as cursor:
    cursor.execute(sys.argv[2])
    for row in cursor.fetchall():
        print(*row, sep="\t")
