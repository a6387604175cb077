import json

import slowpackage

print(len(json.dumps(slowpackage.tables.TABLE[7])))
