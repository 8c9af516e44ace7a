from __future__ import annotations

import io
import os
import resource
import struct
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import turbojpeg
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps, PngImagePlugin

from infer_app.images import decode
from infer_app.images.bad_image import BadImage
from infer_app.images.decode import DecodeLimits, decode_image, decoder_name, has_turbo
from infer_app.records import Reason, Recipe
from tests.unit.images import jpegs
