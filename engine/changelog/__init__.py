"""The changelog: the durable, ordered record of every store's epochs. Start at `Changelog.open`.

Never knows what hosts make of the epochs. The only room that imports obstore.

`layout` says where objects are, `codec` what is in them, `frames` what it is wrapped in; `objects` and
`local_objects` store them; `definitions` knows what stores are and were, `amendments` what was decided of a
group beside its epochs (`skipping` passes an epoch by, `store_drops` ends a store), `differences` what to say
where a job asks for another store, `switches` which store a name means, `decisions` who decided all that,
`catalog` all of it as hosts read it, and `checksummed_json` how such documents are stored; `epochs` holds the
epochs of one group, `history` gives them as hosts apply them, `writer` is the one writer of it, `snapshots`
what takes the place of older epochs, `changelog` puts them together, `inspection` reads all of it and says
what is wrong, and `first_loads` knows what loads of new stores have left. `rows` and `appender` are the way
in for tables. `backup` copies all of it to another place and back.
"""

from engine.changelog.amendments import Exclusions, Migration, Skip, StoreDrop
from engine.changelog.appender import StoreAppender, append_table, open_appender
from engine.changelog.catalog import Catalog
from engine.changelog.changelog import Changelog, Dropped
from engine.changelog.codec import RowsByPartition, decode_file, encode_file
from engine.changelog.commit import Commit, CommittedBatch, DataFile, Slice
from engine.changelog.decisions import UNKNOWN_AUTHOR, Author, Decision, DecisionKind
from engine.changelog.inspection import Inspected, InspectedEpoch, InspectedSnapshot, Inspection
from engine.changelog.rows import partition_rows
from engine.changelog.snapshot import Snapshot, SnapshotRetention
from engine.changelog.snapshots import Snapshots
from engine.changelog.switches import Switch
from engine.changelog.writer import Writer

__all__ = [
    "UNKNOWN_AUTHOR",
    "Author",
    "Catalog",
    "Changelog",
    "Commit",
    "CommittedBatch",
    "DataFile",
    "Decision",
    "DecisionKind",
    "Dropped",
    "Exclusions",
    "Inspected",
    "InspectedEpoch",
    "InspectedSnapshot",
    "Inspection",
    "Migration",
    "RowsByPartition",
    "Skip",
    "Slice",
    "Snapshot",
    "SnapshotRetention",
    "Snapshots",
    "StoreAppender",
    "StoreDrop",
    "Switch",
    "Writer",
    "append_table",
    "decode_file",
    "encode_file",
    "open_appender",
    "partition_rows",
]
