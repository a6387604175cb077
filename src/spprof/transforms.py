"""`spprof.transforms.filtered`: a part of a profile as a profile of its own."""

from .model.filtering import filtered

__all__ = ["filtered"]
