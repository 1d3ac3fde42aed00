"""livestate for SQLAlchemy: `create_engine("livestate://host:8815")`.

It stands alone: of livestate it imports nothing but how a host is reached, so that it can be installed beside
a tool that wants other versions of pyarrow than livestate's hosts.
"""

from __future__ import annotations

from sqlalchemy_livestate.dialect import LivestateDialect

__all__ = ["LivestateDialect"]
