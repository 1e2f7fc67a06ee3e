"""Container images by name: which rows have them, and how large they are."""

from __future__ import annotations

from moorage.core.nodes import NodeImage


class ImageIndex:
    """image name -> row -> size in bytes. `version` rises whenever any answer could differ."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[int, int]] = {}
        self._row_images: dict[int, tuple[NodeImage, ...]] = {}
        self.version = 0

    def set_row(self, row: int, images: tuple[NodeImage, ...]) -> None:
        """Replace the images of one row."""
        old = self._row_images.get(row, ())
        if old == images:
            return
        self.version += 1
        for image in old:
            for name in image.names:
                sizes = self._sizes.get(name, {})
                sizes.pop(row, None)
                if not sizes:
                    self._sizes.pop(name, None)
        for image in images:
            for name in image.names:
                self._sizes.setdefault(name, {})[row] = image.size_bytes
        self._row_images[row] = images
        if not images:
            del self._row_images[row]

    def sizes(self, name: str) -> dict[int, int]:
        """Size of one image by row; empty if no node has it. Read only."""
        return self._sizes.get(name, {})

    def snapshot(self) -> dict[str, dict[int, int]]:
        """A plain copy for comparisons."""
        return {name: dict(sizes) for name, sizes in self._sizes.items()}
