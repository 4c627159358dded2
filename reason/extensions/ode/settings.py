"""The recursive family with the settings `integrator`, `substeps`, `equation` and multiplicative noise.

The family `recursive` of the table is replaced, so that every trained run can be evaluated with them.
"""

from __future__ import annotations

from reason.extensions.ode.model import OdeConfig, OdeModel
from reason.models import FAMILIES, Family

FAMILIES["recursive"] = Family(OdeConfig, OdeModel)
